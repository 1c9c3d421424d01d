//! The upstream programs of a cluster and the conformance suites: built by Go from modules of ours, once
//! for each state of a module's files and flags.

mod module;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use ring::digest::{Context as Digest, SHA256};

use crate::home::{self, Home};
use crate::packages;
use crate::process;
use crate::progress::Progress;
use module::{CLUSTER, CONFORMANCE, Module, OTHERS};

/// The Kubernetes of `k8s/e2e/programs/kubernetes/go.mod`.
pub(crate) const KUBERNETES_VERSION: &str = "v1.37.1";

/// The flags that all programs are built with: the same result in every folder.
const GO_FLAGS: &str = "-trimpath -buildvcs=false";

/// Name of a suite's test binary.
pub(crate) const SUITE: &str = "conformance.test";

/// Builds the missing programs of a cluster, and returns the folders of all.
pub(crate) fn build(home: &Home) -> Result<Vec<PathBuf>> {
    packages::install()?;
    let (folder, _lock) = lock(home)?;
    CLUSTER.iter().map(|module| module.build(&folder)).collect()
}

/// Builds the programs of one module if they are missing, and returns their folder.
pub(crate) fn build_one(home: &Home, name: &str) -> Result<PathBuf> {
    let module = module(name)?;
    let (folder, _lock) = lock(home)?;
    module.build(&folder)
}

/// The folder of all programs, locked: each of two builds at once would need all cores.
fn lock(home: &Home) -> Result<(PathBuf, File)> {
    let folder = home.programs();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = File::create(folder.join("lock")).context("cannot create a lock file")?;
    lock.lock().context("cannot lock the folder of programs")?;
    Ok((folder, lock))
}

fn module(name: &str) -> Result<&'static Module> {
    let all = || CLUSTER.iter().chain(&OTHERS).chain(&CONFORMANCE);
    all().find(|module| module.name == name).with_context(|| {
        let names: Vec<_> = all().map(|module| module.name).collect();
        format!("there is no module {name}; there are: {}", names.join(", "))
    })
}

/// The folder of a module's programs, if they have been built.
pub(crate) fn built(home: &Home, name: &str) -> Result<PathBuf> {
    let module = module(name)?;
    let path = home.programs().join(module.key()?);
    if !path.is_dir() {
        bail!("{name} is not built yet: run `e2e build`");
    }
    Ok(path)
}

impl Module {
    fn sources(&self) -> PathBuf {
        home::repository().join(self.folder)
    }

    fn build(&self, folder: &Path) -> Result<PathBuf> {
        let target = folder.join(self.key()?);
        if target.is_dir() {
            return Ok(target);
        }
        check_go()?;
        // A file with its final name is complete.
        let partial = folder.join(format!("{}.partial", self.name));
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .with_context(|| format!("cannot remove {}", partial.display()))?;
        }
        fs::create_dir_all(&partial)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        self.compile(&partial)
            .with_context(|| format!("cannot build {}", self.name))?;
        for (from, to) in self.renamed {
            fs::rename(partial.join(from), partial.join(to))
                .with_context(|| format!("Go did not build {from}"))?;
        }
        for (module, folder) in self.copied {
            self.copy(module, folder, &partial)
                .with_context(|| format!("cannot copy {folder} of {module}"))?;
        }
        fs::rename(&partial, &target)
            .with_context(|| format!("cannot create {}", target.display()))?;
        Ok(target)
    }

    /// A digest of what the result depends on: the module's files and the flags.
    fn key(&self) -> Result<String> {
        let mut digest = Digest::new(&SHA256);
        let sources = self.sources();
        let mut files: Vec<_> = fs::read_dir(&sources)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("cannot read {}", sources.display()))?;
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            let text = fs::read(file.path())
                .with_context(|| format!("cannot read {}", file.path().display()))?;
            digest.update(file.file_name().as_encoded_bytes());
            digest.update(&text);
        }
        for flag in [GO_FLAGS, self.tags, &linker_flags(), std::env::consts::ARCH] {
            digest.update(flag.as_bytes());
            digest.update(b"\0");
        }
        Ok(format!("{}-{}", self.name, short_hex(digest)))
    }

    fn compile(&self, target: &Path) -> Result<()> {
        eprintln!("{}: fetching modules", self.name);
        process::run(self.go().args(["mod", "download"]))?;
        let mut list = self.go();
        list.args([
            "list",
            "-deps",
            "-tags",
            self.tags,
            "-ldflags",
            &linker_flags(),
        ]);
        list.args(["-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]);
        let stale = process::run(list.args(self.packages))?;
        let mut progress = Progress::new(self.name, stale.split_whitespace().count());

        let mut build = self.go();
        build.args([
            "build",
            "-v",
            "-tags",
            self.tags,
            "-ldflags",
            &linker_flags(),
        ]);
        build.arg("-o").arg(target).args(self.packages);
        let mut child = build
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run go")?;
        let mut complaints = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr).lines() {
                let line = line.context("cannot read the output of go")?;
                // With -v, go prints each package that it begins; other lines have spaces.
                if line.contains(' ') {
                    complaints.push(line);
                } else {
                    progress.advance();
                }
            }
        }
        let status = child.wait().context("cannot wait for go")?;
        progress.finish();
        if !status.success() {
            bail!(
                "go build failed ({status}): {}",
                process::last_lines(&complaints.join("\n"), 15)
            );
        }
        self.compile_test(target)
    }

    fn compile_test(&self, target: &Path) -> Result<()> {
        let Some(package) = self.test else {
            return Ok(());
        };
        let mut test = self.go();
        test.args(["test", "-c", "-ldflags", "-s -w", "-o"]);
        process::run(test.arg(target.join(SUITE)).arg(package)).map(drop)
    }

    /// Copies the files of a module's folder to a folder of the same name.
    fn copy(&self, module: &str, folder: &str, target: &Path) -> Result<()> {
        let root = process::run(self.go().args(["list", "-m", "-f", "{{.Dir}}", module]))?;
        let target = target.join(folder);
        fs::create_dir_all(&target)
            .with_context(|| format!("cannot create {}", target.display()))?;
        for file in fs::read_dir(Path::new(root.trim()).join(folder))? {
            let file = file?;
            fs::copy(file.path(), target.join(file.file_name()))?;
        }
        Ok(())
    }

    fn go(&self) -> Command {
        let mut go = process::command(&["go"]);
        go.current_dir(self.sources());
        // Programs of a scratch image have no C library.
        go.env("CGO_ENABLED", "0")
            .env("GOFLAGS", GO_FLAGS)
            // Go fetches the version that the module requires.
            .env("GOTOOLCHAIN", "auto")
            .env_remove("GOROOT");
        go
    }
}

/// Fails with instructions if Go is not installed.
fn check_go() -> Result<()> {
    if packages::find("go").is_none() {
        bail!(
            "Go is required to build the cluster's programs: install 1.21 or newer from https://go.dev/dl; it fetches the version that they need"
        );
    }
    Ok(())
}

/// Without these, every component reports v0.0.0, and version checks fail.
fn linker_flags() -> String {
    let mut flags = "-s -w".to_owned();
    let (major, minor) = ("1", "37");
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (name, value) in [
            ("gitVersion", KUBERNETES_VERSION),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
        ] {
            flags.extend([" -X ", package, ".", name, "=", value]);
        }
    }
    flags
}

/// A digest in hexadecimal.
pub(crate) fn hex(digest: Digest) -> String {
    let digits = b"0123456789abcdef";
    let of_byte = |byte: &u8| {
        [
            digits[usize::from(byte >> 4)],
            digits[usize::from(byte & 15)],
        ]
    };
    digest
        .finish()
        .as_ref()
        .iter()
        .flat_map(of_byte)
        .map(char::from)
        .collect()
}

/// The first twelve digits: enough to tell apart what one developer builds.
pub(crate) fn short_hex(digest: Digest) -> String {
    let mut digits = hex(digest);
    digits.truncate(12);
    digits
}
