//! What a cluster leaves behind: nothing, however it ends.
//!
//! Needs root, and takes minutes: `cargo test -p e2e --test lifecycle -- --ignored
//! --test-threads=1`. `E2E_ROUNDS` is the number of times that the first test starts and removes a
//! cluster.

mod home;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use home::default_home;
use rustix::process::{Pid, Signal, kill_process};

#[test]
#[ignore = "needs root"]
fn removed_clusters_leave_nothing_behind() {
    let rounds = std::env::var("E2E_ROUNDS").map_or(3, |text| text.parse().expect("a number"));
    let cluster = Cluster::named("rounds");
    for round in 0..rounds {
        let started = Instant::now();
        cluster.succeeds(&["up"]);
        let up = started.elapsed();
        let started = Instant::now();
        cluster.succeeds(&["down"]);
        let down = started.elapsed();
        cluster.is_gone();
        eprintln!(
            "round {round}: up {:.1} s, down {:.1} s",
            up.as_secs_f64(),
            down.as_secs_f64()
        );
    }
}

#[test]
#[ignore = "needs root"]
fn an_interrupted_up_is_undone() {
    let cluster = Cluster::named("interrupts");
    for millis in [100, 500, 1_000, 2_000, 4_000] {
        let mut up = cluster.starts();
        thread::sleep(Duration::from_millis(millis));
        signal(&up, Signal::INT);
        let status = up.wait().expect("it ends");
        // On a fast machine the last ones come too late.
        if status.success() {
            cluster.succeeds(&["down"]);
        }
        cluster.is_gone();
    }
}

#[test]
#[ignore = "needs root"]
fn down_removes_the_remains_of_a_crash() {
    let cluster = Cluster::named("crash");
    for millis in [100, 500, 1_000, 2_000, 4_000] {
        let mut up = cluster.starts();
        thread::sleep(Duration::from_millis(millis));
        signal(&up, Signal::KILL);
        up.wait().expect("it ends");
        cluster.succeeds(&["down"]);
        cluster.is_gone();
    }
}

#[test]
#[ignore = "needs root"]
fn up_removes_the_remains_of_a_crash() {
    let cluster = Cluster::named("again");
    cluster.succeeds(&["up"]);
    for pid in cluster.processes() {
        // It may have ended with another one.
        let _ = kill_process(pid, Signal::KILL);
    }
    cluster.has_no_processes();
    cluster.succeeds(&["up"]);
    cluster.succeeds(&["exec", "--", "kubectl", "get", "nodes"]);
    cluster.succeeds(&["down"]);
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn a_second_up_is_rejected_without_effect() {
    let cluster = Cluster::named("twice");
    cluster.succeeds(&["up"]);
    let message = cluster.fails(&["up"]);
    assert!(
        message.contains("is up already") && message.contains("down"),
        "{message}"
    );
    cluster.succeeds(&["exec", "--", "kubectl", "get", "nodes"]);
    cluster.succeeds(&["down"]);
    cluster.succeeds(&["down"]);
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn clusters_of_two_names_run_side_by_side() {
    let (one, two) = (Cluster::named("one"), Cluster::named("two"));
    one.succeeds(&["up"]);
    two.succeeds(&["up"]);
    one.succeeds(&["exec", "--", "kubectl", "create", "namespace", "of-one"]);
    let mut other = two.command(&["exec", "--", "kubectl", "get", "namespace", "of-one"]);
    assert!(
        !other.status().expect("it runs").success(),
        "a namespace of both clusters"
    );
    two.succeeds(&["down"]);
    two.is_gone();
    one.succeeds(&["exec", "--", "kubectl", "get", "namespace", "of-one"]);
    one.succeeds(&["down"]);
    one.is_gone();
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_is_reported_and_does_not_prevent_removal() {
    let disk = Disk::of_mebibytes(2_300);
    let cluster = Cluster {
        name: "t-full".to_owned(),
        home: Some(disk.folder.path().to_owned()),
    };
    cluster.succeeds(&["up"]);
    disk.fill();
    cluster.succeeds(&["down"]);
    cluster.is_gone();
    let message = cluster.fails(&["up"]);
    assert!(
        message.contains("no space left") && message.contains("E2E_HOME"),
        "{message}"
    );
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn a_component_that_cannot_start_is_named_with_its_last_lines() {
    let cluster = Cluster::named("broken");
    cluster.succeeds(&["up"]);
    cluster.succeeds(&["stop", "kubelet", "--kill"]);
    let message = cluster.fails(&["start", "kubelet", "--node", "7"]);
    assert!(message.contains("no node-7"), "{message}");
    cluster.succeeds(&["start", "kubelet"]);
    let message = cluster.fails(&["start", "kubelet"]);
    assert!(message.contains("runs already"), "{message}");
    let log = cluster.succeeds(&["logs", "kubelet"]);
    assert!(log.contains("kubelet"), "{log}");
    cluster.succeeds(&["down"]);
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn partially_written_programs_are_rebuilt() {
    let partial = default_home().join("programs/pause.partial");
    fs::create_dir_all(&partial).expect("a folder");
    fs::write(partial.join("pause"), "half").expect("written");
    let built = fs::read_dir(default_home().join("programs")).expect("programs are built");
    for entry in built.flatten() {
        if entry.file_name().to_string_lossy().starts_with("pause-") {
            fs::remove_dir_all(entry.path()).expect("removed");
        }
    }
    let cluster = Cluster::named("partial");
    cluster.succeeds(&["build"]);
    assert!(!partial.exists());
    cluster.succeeds(&["up"]);
    cluster.succeeds(&["down"]);
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn missing_images_and_names_are_reported() {
    let cluster = Cluster::named("names");
    cluster.succeeds(&["up"]);
    for (words, expected) in [
        (
            &["load", "nowhere.tar"][..],
            "there is no archive nowhere.tar",
        ),
        (&["image", "nothing"], "there is no image nothing"),
        (&["test", "no such test"], "no test's name contains"),
    ] {
        let message = cluster.fails(words);
        assert!(message.contains(expected), "{message}");
    }
    cluster.succeeds(&["down"]);
    let message = cluster.fails(&["exec", "--", "true"]);
    assert!(
        message.contains("is not up") && message.contains("up"),
        "{message}"
    );
    cluster.is_gone();
}

#[test]
#[ignore = "needs root"]
fn missing_root_or_namespaces_are_reported() {
    let binary = env!("CARGO_BIN_EXE_e2e");
    // The binary may be where others cannot read.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("e2e");
    fs::copy(binary, &copy).expect("copied");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("opened");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .arg("up");
    let message = failure(command.env("E2E_HOME", "/tmp/e2e-of-nobody").output());
    assert!(message.contains("needs root"), "{message}");

    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
        .arg(binary);
    let message = failure(command.args(["--name", "refused", "up"]).output());
    assert!(
        message.contains("namespaces cannot be created"),
        "{message}"
    );
    Cluster::named("refused").is_gone();
    let _ = fs::remove_dir_all("/tmp/e2e-of-nobody");
}

#[test]
#[ignore = "needs root"]
fn missing_kernel_features_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let filesystems = folder.path().join("filesystems");
    fs::write(&filesystems, "nodev\tproc\n\text4\n").expect("written");
    let without_overlay = format!("mount --bind {} /proc/filesystems", filesystems.display());
    for (lack, expected) in [
        (&*without_overlay, "no overlay file system"),
        (
            "mount -t tmpfs none /sys/fs/cgroup",
            "no cgroup controllers",
        ),
    ] {
        let cluster = Cluster::named("kernel");
        let mut command = cluster.command_after("-m", lack, &["up"]);
        let message = failure(command.output());
        assert!(message.contains(expected), "{message}");
        cluster.is_gone();
    }
}

#[test]
#[ignore = "needs root"]
fn ports_and_addresses_in_use_on_the_host_do_not_conflict() {
    let cluster = Cluster::named("taken");
    // They are in use, by this test or by another process.
    let _listening = [2379, 6443, 10250].map(|port| TcpListener::bind(("0.0.0.0", port)));
    cluster.succeeds(&["up"]);
    cluster.succeeds(&["exec", "--", "kubectl", "get", "nodes"]);
    cluster.succeeds(&["down"]);
    let taken = "ip link set lo up; for range in 10.96.0.1 10.244.0.1 172.31.255.1 172.31.250.1; do
                 ip address add $range/16 dev lo; done";
    let up = cluster.command_after("-n", taken, &["up"]).output();
    let up = up.expect("it runs");
    let stderr = String::from_utf8_lossy(&up.stderr);
    assert!(up.status.success(), "{stderr}");
    cluster.succeeds(&["exec", "--", "kubectl", "get", "nodes"]);
    cluster.succeeds(&["down"]);
    cluster.is_gone();
}

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Cluster {
    name: String,
    home: Option<PathBuf>,
}

impl Cluster {
    fn named(name: &str) -> Self {
        // A unique name, so that no test affects a cluster of the user.
        Self {
            name: format!("t-{name}"),
            home: None,
        }
    }

    fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(default_home)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e2e"));
        command
            .args(["--name", &self.name])
            .args(words)
            .env("E2E_HOME", self.home());
        command
    }

    /// A command in a new namespace of a kind, after something was done there.
    fn command_after(&self, namespace: &str, script: &str, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args([
                namespace,
                "sh",
                "-c",
                &format!("{script}\nexec \"$0\" \"$@\""),
            ])
            .arg(env!("CARGO_BIN_EXE_e2e"))
            .args(["--name", &self.name])
            .args(words)
            .env("E2E_HOME", self.home());
        command
    }

    fn starts(&self) -> Child {
        let mut command = self.command(&["up"]);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs")
    }

    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn fails(&self, words: &[&str]) -> String {
        failure(self.command(words).output())
    }

    /// Those of its cgroups.
    fn processes(&self) -> Vec<Pid> {
        let mark = format!("/e2e-{}/", self.name);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let of_cluster = entries.filter(|entry| {
            let cgroups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            cgroups.contains(&mark)
        });
        let pids = of_cluster.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw).collect()
    }

    /// All processes end soon: init takes its time to reap them.
    fn has_no_processes(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.processes().is_empty() {
            assert!(
                Instant::now() < deadline,
                "processes {:?} are left",
                self.processes()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// No process, mount, network namespace, cgroup or file is left.
    fn is_gone(&self) {
        let mark = format!("e2e-{}", self.name);
        self.has_no_processes();
        let folder = self.home().join("clusters").join(&self.name);
        assert!(!folder.exists(), "{} is left", folder.display());
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        assert!(
            !mounts.contains(&format!("/{}", folder.display())),
            "a mount is left: {mounts}"
        );
        let namespace = Path::new("/run/netns").join(&mark);
        assert!(!namespace.exists(), "{} is left", namespace.display());
        for hierarchy in fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten() {
            let cgroup = hierarchy.path().join(&mark);
            assert!(!cgroup.exists(), "{} is left", cgroup.display());
        }
        assert!(
            !Path::new("/sys/fs/cgroup").join(&mark).exists(),
            "a cgroup is left"
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that failed leaves nothing to the next one.
        if thread::panicking() {
            let _ = self.command(&["down"]).status();
        }
    }
}

fn failure(output: std::io::Result<Output>) -> String {
    let output = output.expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it succeeded: {stderr}");
    assert!(
        stderr.starts_with("error: ") || stderr.contains("\nerror: "),
        "{stderr}"
    );
    stderr
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// A disk for clusters that is small, with the programs that are built already.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn of_mebibytes(size: u32) -> Self {
        let folder = tempfile::tempdir_in("/root").expect("a folder");
        let size = format!("size={size}m");
        let mut mount = Command::new("mount");
        mount
            .args(["-n", "-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path());
        assert!(mount.status().expect("mount runs").success());
        for name in ["programs", "images"] {
            std::os::unix::fs::symlink(default_home().join(name), folder.path().join(name))
                .expect("a link");
        }
        Self { folder }
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.folder.path().join("filler")).expect("a file");
        // Until there is no room for more.
        while std::io::Write::write_all(&mut file, &[1; 1 << 13]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let status = Command::new("umount")
            .args(["-n", "--lazy"])
            .arg(self.folder.path())
            .status();
        assert!(thread::panicking() || status.expect("umount runs").success());
    }
}
