//! Files: Gateway API YAML, also in folders, as `gateway --config` and `kubectl apply -f` take it, and
//! what may come from a pipe.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use translate::admit::Source;

/// Reads files, and the `.yaml`, `.yml` and `.json` files directly in folders, by name.
///
/// # Errors
/// One cannot be read, or a folder has none.
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
            let text = contents(&file).with_context(|| format!("{name} cannot be read"))?;
            sources.push(Source::from_bytes(name, text));
        }
    }
    Ok(sources)
}

/// A pipe's writer may never come, and a device may have no end, so neither is opened.
fn contents(path: &Path) -> Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        bail!("it is not a regular file");
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        bail!("it is larger than 64 MiB, which the gateway would refuse");
    }
    Ok(bytes)
}

/// All of a file that may be a pipe, whose writer may never come or never end; `-` is stdin.
///
/// # Errors
/// It cannot be read, is larger than `most` bytes, or does not end in time.
pub(crate) fn whole(path: &Path, most: u64, timeout: Duration) -> Result<Vec<u8>> {
    let name = path.display();
    let (sender, bytes) = mpsc::channel();
    let file = path.to_owned();
    // Where it waits for too long, it ends with this process.
    thread::spawn(move || sender.send(up_to(&file, most + 1)));
    let bytes = bytes.recv_timeout(timeout).map_err(|_| {
        anyhow!("{name} did not end within {timeout:?}; give it longer with --timeout")
    })??;
    if bytes.len() as u64 > most {
        bail!("{name} is larger than {} MiB", most >> 20);
    }
    Ok(bytes)
}

fn up_to(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let name = path.display();
    let read = if path == Path::new("-") {
        io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        let file = File::open(path).with_context(|| format!("{name} cannot be opened"))?;
        file.take(most).read_to_end(&mut bytes)
    };
    read.with_context(|| format!("{name} cannot be read"))?;
    Ok(bytes)
}

/// What the gateway takes of one file: 64 MiB.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = folder.display();
    let entries = fs::read_dir(folder).with_context(|| format!("{name} cannot be listed"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("{name} has no .yaml, .yml or .json file");
    }
    files.sort();
    Ok(files)
}
