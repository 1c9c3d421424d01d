//! Passwords: from a file, the environment or a prompt, and never from an argument, which every
//! process of the machine can read.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::files;

/// A text that is never printed.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The sources of a password.
pub(super) struct PasswordSource {
    variable: &'static str,
    option: &'static str,
}

pub(super) const ADMIN: PasswordSource = PasswordSource {
    variable: "IDP_ADMIN_PASSWORD",
    option: "--admin-password-file",
};

/// Of the test users, for `setup`.
pub(super) const USERS: PasswordSource = PasswordSource {
    variable: "IDP_USER_PASSWORD",
    option: "--user-password-file",
};

/// Of a user, for `token`.
pub(super) const USER: PasswordSource = PasswordSource {
    variable: "IDP_USER_PASSWORD",
    option: "--password-file",
};

/// Reads the password of `account`.
///
/// # Errors
/// There is none.
pub(super) fn read(place: &PasswordSource, account: &str, file: Option<&Path>) -> Result<Secret> {
    let text = if let Some(file) = file {
        let bytes = files::read_to_end(file, FILE_BYTES, FILE_TIMEOUT)?;
        let text = String::from_utf8(bytes);
        text.with_context(|| format!("{} is not text", file.display()))?
    } else if let Some(text) = std::env::var_os(place.variable) {
        let text = text.into_string().ok();
        text.with_context(|| format!("{} is not text", place.variable))?
    } else if io::stdin().is_terminal() {
        rpassword::prompt_password(format!("Password of {account}: "))?
    } else {
        bail!(
            "no password of {account}: give it with {} FILE, or in the environment as {}",
            place.option,
            place.variable
        );
    };
    // Editors end a file with a line end.
    let text = text.lines().next().unwrap_or_default();
    if text.is_empty() {
        bail!("the password of {account} is empty");
    }
    Ok(Secret(text.to_owned()))
}

/// Limit of a password file: 1 MiB.
const FILE_BYTES: u64 = 1 << 20;
/// Time for a file that is a pipe: 30 s.
const FILE_TIMEOUT: Duration = Duration::from_secs(30);
