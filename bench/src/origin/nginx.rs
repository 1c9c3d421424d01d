//! nginx as an origin: static files of the same bytes, counts from its stub status.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::http1;
use crate::peers::{NGINX_UNLIMITED, nginx_preamble};

/// Writes files and configuration; the command that serves them.
pub(super) fn command(listen: SocketAddr, size: usize, folder: &Path) -> Result<Command> {
    let folder = folder.join("origin");
    let files = folder.join("bytes");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join(size.to_string()), http1::body(size))?;
    let conf = folder.join("nginx.conf");
    std::fs::write(&conf, config(listen, &folder))?;
    let mut command = Command::new("nginx");
    command
        .arg("-c")
        .arg(conf)
        .arg("-p")
        .arg(folder)
        .args(["-e", "stderr"]);
    Ok(command)
}

fn config(listen: SocketAddr, folder: &Path) -> String {
    let (preamble, folder) = (nginx_preamble(1, ""), folder.display());
    format!(
        "{preamble}http {{\n{NGINX_UNLIMITED}open_file_cache max=16;\nopen_file_cache_valid 1h;\n\
         sendfile on;\ntcp_nopush on;\nserver {{ listen {listen};\n\
         location = /stats {{ stub_status; }}\n\
         location ~ /bytes/([0-9]+)$ {{ alias {folder}/bytes/$1; }} }} }}\n"
    )
}

/// The third number of the line after `server accepts handled requests`.
pub(super) fn counted(text: &str) -> Result<u64> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("server accepts"));
    let numbers = lines.nth(1).context("nginx reported no counts")?;
    let requests = numbers
        .split_ascii_whitespace()
        .nth(2)
        .context("nginx reported no counts")?;
    // This question is counted before it is answered.
    Ok(requests.parse::<u64>()?.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_for_the_count_is_not_counted() {
        let text =
            "Active connections: 1 \nserver accepts handled requests\n 3 3 17 \nReading: 0\n";
        assert_eq!(counted(text).expect("valid"), 16);
        assert!(counted("nothing").is_err());
    }
}
