//! Images: built by buildah from the Dockerfiles that users build from, as archives that every engine
//! loads.

pub(crate) mod keycloak;
pub(crate) mod previous;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use ring::digest::{Context as Digest, SHA256};

use crate::home::{self, Home};
use crate::process;
use crate::programs::{self, hex, short_hex};

/// The reference of the echo backend in pods.
pub(crate) const ECHO: &str = "localhost/echo:1";

/// The reference of the authorization server in pods.
pub(crate) const AUTHORIZER: &str = "localhost/authorizer:1";

/// The images that pods of any test need.
const BACKENDS: [Backend; 3] = [
    Backend::of("pause", "localhost/pause:1"),
    Backend::of("echo", ECHO),
    Backend::of("authorizer", AUTHORIZER),
];

/// The Cargo profile of what ships.
pub(crate) const SHIPPED_PROFILE: &str = "release";
/// The Cargo profile of images in tests: fast to build, and without debug information.
pub(crate) const TEST_PROFILE: &str = "e2e";

/// Programs of this tree that have images.
const PROGRAMS: [(&str, &str); 2] = [("gateway", "proxy"), ("controller", "controller")];

/// An image of an upstream program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backend {
    /// The module that the program is built from.
    pub(crate) module: &'static str,
    /// The program, after which its stage of the Dockerfile is called.
    pub(crate) program: &'static str,
    pub(crate) reference: &'static str,
}

impl Backend {
    /// Image of a program whose module has the same name.
    pub(crate) const fn of(program: &'static str, reference: &'static str) -> Self {
        Self {
            module: program,
            program,
            reference,
        }
    }
}

/// An image of this tree.
pub(crate) struct Image {
    pub(crate) reference: String,
    pub(crate) archive: PathBuf,
    program: PathBuf,
}

impl Image {
    /// Describes the built image.
    pub(crate) fn summary(&self) -> Result<String> {
        let archive = fs::read(&self.archive)
            .with_context(|| format!("cannot read {}", self.archive.display()))?;
        let program = fs::metadata(&self.program)
            .with_context(|| format!("cannot read {}", self.program.display()))?;
        let mut sum = Digest::new(&SHA256);
        sum.update(&archive);
        Ok(format!(
            "{}: {}\n{:.1} MB, of which {:.1} MB are the program; sha256 {}",
            self.reference,
            self.archive.display(),
            megabytes(archive.len() as u64),
            megabytes(program.len()),
            hex(sum),
        ))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Builds the images that pods of any test need, where they are missing.
pub(crate) fn build_backends(home: &Home) -> Result<Vec<PathBuf>> {
    let build = |backend| build_backend(home, backend);
    BACKENDS.into_iter().map(build).collect()
}

/// Builds an image of an upstream program, which has been built, where it is missing.
pub(crate) fn build_backend(home: &Home, backend: Backend) -> Result<PathBuf> {
    let Backend {
        module,
        program,
        reference,
    } = backend;
    let dockerfile = home::sources().join("images/Dockerfile");
    let text =
        fs::read(&dockerfile).with_context(|| format!("cannot read {}", dockerfile.display()))?;
    let programs = programs::built(home, module)?;
    let mut key = Digest::new(&SHA256);
    key.update(&text);
    let state = programs.file_name().context("programs have a folder")?;
    key.update(state.as_encoded_bytes());
    key.update(reference.as_bytes());
    let name = format!("{program}-{}.tar", short_hex(key));
    let archive = home.images().join(name);
    if !archive.is_file() {
        let builder = Builder::new(home, program)?;
        builder.build(&dockerfile, program, reference, &[], &programs, &archive)?;
    }
    Ok(archive)
}

/// The archive that a user named: a file, or an image of this repository, which is built with a Cargo profile.
pub(crate) fn archive(home: &Home, name: &str, profile: &str) -> Result<PathBuf> {
    if PROGRAMS.iter().any(|(program, _)| *program == name) {
        return Ok(build(home, name, profile)?.archive);
    }
    let path = PathBuf::from(name);
    if !path.is_file() {
        bail!(
            "there is no archive {name}, and no image of this repository has that name ({}); `docker save` and `buildah push … docker-archive:FILE:REFERENCE` write archives",
            PROGRAMS.map(|(program, _)| program).join(", ")
        );
    }
    fs::canonicalize(&path).with_context(|| format!("cannot resolve {name}"))
}

/// How an image of this repository is built.
pub(crate) struct Recipe<'a> {
    pub(crate) program: &'a str,
    /// The checkout.
    pub(crate) repository: &'a Path,
    /// The Cargo profile.
    pub(crate) profile: &'a str,
    pub(crate) tag: &'a str,
    /// The profile of an instrumented run, for profile-guided optimisation.
    pub(crate) pgo: Option<&'a Path>,
}

/// Builds an image of this repository from the tree as it is.
pub(crate) fn build(home: &Home, program: &str, profile: &str) -> Result<Image> {
    let recipe = Recipe {
        program,
        repository: home::repository(),
        profile,
        tag: profile,
        pgo: None,
    };
    build_from(home, &recipe)
}

/// Builds an image of this repository.
pub(crate) fn build_from(home: &Home, recipe: &Recipe<'_>) -> Result<Image> {
    let Recipe {
        program,
        repository,
        tag,
        ..
    } = *recipe;
    if !PROGRAMS.iter().any(|(name, _)| *name == program) {
        bail!(
            "there is no image {program}; there are: {}",
            PROGRAMS.map(|(program, _)| program).join(", ")
        );
    }
    let binary = compile(home, recipe)?;
    let builder = Builder::new(home, program)?;
    let context = builder.folder.join("context");
    let folder = context.join(oci_architecture());
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    copy(&binary, &folder.join(program))?;
    copy(
        Path::new(CERTIFICATES),
        &context.join("ca-certificates.crt"),
    )?;
    let reference = reference(program, tag);
    let archive = home.images().join(format!("{program}-{tag}.tar"));
    let arguments = [
        format!("VERSION={}", env!("CARGO_PKG_VERSION")),
        format!("REVISION={}", revision(repository)?),
        format!("TARGETARCH={}", oci_architecture()),
    ];
    let dockerfile = repository.join("k8s/images/Dockerfile");
    builder.build(
        &dockerfile,
        program,
        &reference,
        &arguments,
        &context,
        &archive,
    )?;
    Ok(Image {
        reference,
        archive,
        program: binary,
    })
}

/// Makes a profile of the program in this checkout, and returns its path.
pub(crate) fn train(program: &str, repository: &Path) -> Result<PathBuf> {
    if program != "gateway" {
        bail!("only the gateway is built with a profile: omit --train");
    }
    let script = repository.join("bench/pgo.sh");
    let mut command = Command::new(&script);
    command.arg("profile");
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !status.success() {
        bail!(
            "cannot make a profile: {} ended with {status}",
            script.display()
        );
    }
    Ok(repository.join("target/pgo/gateway.profdata"))
}

/// Name of one of our images.
pub(crate) fn reference(program: &str, tag: &str) -> String {
    format!("localhost/{program}:{tag}")
}

/// Debian's bundle of public certificate authorities.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds a statically linked program. Paths of this machine are left out, so that builds are
/// reproducible.
fn compile(home: &Home, recipe: &Recipe<'_>) -> Result<PathBuf> {
    let Recipe {
        program, profile, ..
    } = *recipe;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = home.target();
    let repository = fs::canonicalize(recipe.repository).context("cannot find the repository")?;
    let mut flags = rust_flags(home, &repository, profile);
    if let Some(pgo) = recipe.pgo {
        let pgo = fs::canonicalize(pgo)
            .with_context(|| format!("cannot find the profile {}", pgo.display()))?;
        flags.extend([" -C profile-use=", &pgo.display().to_string()]);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&repository);
    cargo.args(["build", "--locked"]);
    for (other, package) in PROGRAMS {
        // Tests need all of them, and what they have in common is compiled once if they are built together.
        if other == program || profile == TEST_PROFILE {
            cargo.args(["--package", package, "--bin", other]);
        }
    }
    cargo.args(["--profile", profile, "--target", &target]);
    cargo.arg("--target-dir").arg(&folder);
    cargo.env("RUSTFLAGS", flags);
    // mimalloc's C code contains the time at which it is compiled.
    cargo.env("SOURCE_DATE_EPOCH", "0");
    for (name, _) in std::env::vars_os() {
        // Cargo's variables for e2e itself: build scripts would see them as changes.
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST")
        }) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("cannot build {program} for an image: cargo ended with {status}");
    }
    let named = if profile == "dev" { "debug" } else { profile };
    Ok(folder.join(target).join(named).join(program))
}

/// The flags of `.cargo/config.toml`, which RUSTFLAGS replaces, and those of an image.
///
/// The path of the checkout is only replaced where debug information contains it. Otherwise switching
/// between two checkouts would rebuild all dependencies, because their flags would differ.
fn rust_flags(home: &Home, repository: &Path, profile: &str) -> String {
    let mut flags = "-C force-frame-pointers=yes -C target-feature=+crt-static".to_owned();
    let cargo = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .unwrap_or_default();
    let mut replaced = vec![
        (cargo, "/cargo"),
        (home.target().display().to_string(), "/target"),
    ];
    if profile != TEST_PROFILE {
        replaced.push((repository.display().to_string(), "/gateway"));
    }
    for (from, to) in replaced {
        flags.extend([" --remap-path-prefix=", &from, "=", to]);
    }
    flags
}

/// The commit, and whether the tree differs from it.
fn revision(repository: &Path) -> Result<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository);
    git.args([
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude",
        "*",
    ]);
    Ok(process::run(&mut git)?.trim().to_owned())
}

/// OCI's name of this machine's architecture.
fn oci_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "x86_64" => "amd64",
        other => other,
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// A run of buildah, with a temporary store of its own.
struct Builder {
    folder: PathBuf,
    _lock: File,
}

impl Builder {
    fn new(home: &Home, name: &str) -> Result<Self> {
        let images = home.images();
        fs::create_dir_all(&images)
            .with_context(|| format!("cannot create {}", images.display()))?;
        let lock = File::create(images.join("lock")).context("cannot create a lock file")?;
        lock.lock().context("cannot lock the folder of images")?;
        let folder = images.join(format!("{name}.partial"));
        // Left by a run that crashed.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Builds one stage of a Dockerfile into an archive.
    fn build(
        &self,
        dockerfile: &Path,
        stage: &str,
        reference: &str,
        arguments: &[String],
        context: &Path,
        archive: &Path,
    ) -> Result<()> {
        let mut bud = self.buildah("bud");
        // No program runs in the build and files have the epoch as their time, so builds are
        // reproducible.
        bud.args([
            "--isolation",
            "chroot",
            "--timestamp",
            "0",
            "--target",
            stage,
            "-t",
            reference,
        ]);
        for argument in arguments {
            bud.args(["--build-arg", argument]);
        }
        bud.arg("-f").arg(dockerfile).arg(context);
        process::run(&mut bud)?;
        let partial = self.folder.join("archive.tar");
        let mut push = self.buildah("push");
        push.arg(reference);
        push.arg(format!("docker-archive:{}:{reference}", partial.display()));
        process::run(&mut push)?;
        fs::rename(&partial, archive)
            .with_context(|| format!("cannot create {}", archive.display()))
    }

    fn buildah(&self, word: &str) -> Command {
        let mut command = process::command(&["buildah", "--storage-driver", "vfs"]);
        command.arg("--root").arg(self.folder.join("store"));
        command.arg("--runroot").arg(self.folder.join("run"));
        command.arg(word);
        command
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
