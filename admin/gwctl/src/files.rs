//! File input: Gateway API manifests in files and directories, as for `gateway run --config` and
//! `kubectl apply -f`, and files that may be pipes.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use translate::files::Source;

/// Reads manifests: files, and the `.yaml`, `.yml` and `.json` files of directories in the order of
/// their names. Directories are not searched recursively.
///
/// # Errors
/// A file cannot be read, or a directory has no manifest.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        let files = if path.is_dir() {
            list(path)?
        } else {
            vec![path.clone()]
        };
        for file in files {
            let name = file.display().to_string();
            let text = contents(&file).with_context(|| format!("cannot read {name}"))?;
            sources.push(Source::from_bytes(name, text));
        }
    }
    Ok(sources)
}

/// The contents of a regular file. Pipes and devices are not opened: a pipe may have no writer and a
/// device no end.
fn contents(path: &Path) -> Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        bail!("not a regular file");
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        bail!("larger than 64 MiB, the gateway's limit for a file");
    }
    Ok(bytes)
}

/// Reads a file that may be a pipe, or stdin for `-`, within a timeout.
///
/// # Errors
/// It cannot be read, is larger than `limit` bytes, or has no end of file in time.
pub(crate) fn read_to_end(path: &Path, limit: u64, timeout: Duration) -> Result<Vec<u8>> {
    let name = path.display();
    let (sender, bytes) = mpsc::channel();
    let file = path.to_owned();
    // A read that blocks for longer is abandoned, and ends with this process.
    thread::spawn(move || sender.send(read_up_to(&file, limit + 1)));
    let bytes = bytes.recv_timeout(timeout).map_err(|_| {
        anyhow!(
            "no end of file from {name} within {timeout:?}; set a longer timeout with --timeout"
        )
    })??;
    if bytes.len() as u64 > limit {
        bail!("{name} is larger than {} MiB", limit >> 20);
    }
    Ok(bytes)
}

fn read_up_to(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let name = path.display();
    let read = if path == Path::new("-") {
        io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        file.take(limit).read_to_end(&mut bytes)
    };
    read.with_context(|| format!("cannot read {name}"))?;
    Ok(bytes)
}

/// The gateway's limit for one file: 64 MiB.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {name}"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("no .yaml, .yml or .json file in {name}");
    }
    files.sort();
    Ok(files)
}
