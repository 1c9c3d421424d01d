//! Gateway API YAML from files and folders, as `gateway --config` and `kubectl apply -f` take it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
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

/// What the gateway takes of one file: 64 MiB.
const FILE_BYTES: u64 = 64 << 20;

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
