//! Runs `gwctl idp`, with passwords in the environment.

use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Its output, where it succeeded.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) const USER_PASSWORD: &str = "uS3r-pa55word";

/// Runs `gwctl idp LINE`, for the administrator `admin` of the provider at `url`.
pub(crate) fn idp(url: &str, admin_password: &str, line: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .arg("idp")
        .args(line.split_whitespace())
        .args(["--url", url, "--admin-user", "admin"])
        .env("IDP_ADMIN_PASSWORD", admin_password)
        .env("IDP_USER_PASSWORD", USER_PASSWORD)
        .stdin(Stdio::null())
        .output()
        .expect("gwctl runs");
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}
