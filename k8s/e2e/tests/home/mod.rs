//! Where the user's own programs, images and clusters are.

use std::path::PathBuf;

/// `$E2E_HOME`, or the folder that `e2e` uses without it.
pub(crate) fn default_home() -> PathBuf {
    let home = std::env::var_os("E2E_HOME").map(PathBuf::from);
    home.unwrap_or_else(|| {
        let user = PathBuf::from(std::env::var_os("HOME").expect("a home"));
        user.join(".cache/gateway-e2e")
    })
}
