//! The memory cgroup of this process, version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};

use admin_types::memory::Cgroup;

/// The files of a memory cgroup.
#[derive(Debug)]
pub struct MemoryCgroup {
    usage: PathBuf,
    limit: PathBuf,
    stat: PathBuf,
    /// Field of `stat`: bytes of file pages on the inactive list.
    inactive_file: &'static str,
}

impl MemoryCgroup {
    /// The cgroup of this process; `None` if the kernel shows none.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::version_2(&groups).or_else(|| Self::version_1(&groups))
    }

    fn version_2(groups: &str) -> Option<Self> {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        Self::find(
            "/sys/fs/cgroup",
            path,
            ["memory.current", "memory.max"],
            "inactive_file",
        )
    }

    fn version_1(groups: &str) -> Option<Self> {
        let lines = groups.lines().filter_map(|line| line.split_once(':'));
        let path = lines
            .filter_map(|(_, rest)| rest.split_once(':'))
            .find_map(|(controllers, path)| {
                controllers
                    .split(',')
                    .any(|it| it == "memory")
                    .then_some(path)
            })?;
        Self::find(
            "/sys/fs/cgroup/memory",
            path,
            ["memory.usage_in_bytes", "memory.limit_in_bytes"],
            "total_inactive_file",
        )
    }

    /// In a container, the cgroup is often mounted in place of the root.
    fn find(root: &str, path: &str, names: [&str; 2], inactive_file: &'static str) -> Option<Self> {
        let inner = PathBuf::from(format!("{root}{}", path.trim_end_matches('/')));
        let folders = [inner, PathBuf::from(root)].into_iter();
        let mut groups = folders.map(|folder| Self::at(&folder, names, inactive_file));
        groups.find(|it| it.usage.exists() && it.stat.exists())
    }

    /// The cgroup whose files are in `folder`, with these names of usage and limit.
    fn at(folder: &Path, [usage, limit]: [&str; 2], inactive_file: &'static str) -> Self {
        Self {
            usage: folder.join(usage),
            limit: folder.join(limit),
            stat: folder.join("memory.stat"),
            inactive_file,
        }
    }

    /// The cgroup of version 2 whose files are in `folder`, for tests.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self::at(folder, ["memory.current", "memory.max"], "inactive_file")
    }

    /// Usage, limit and working set now; `None` if the kernel does not report them.
    #[must_use]
    pub fn read(&self) -> Option<Cgroup> {
        let usage = number(&self.usage)?;
        let stat = fs::read_to_string(&self.stat).ok()?;
        let inactive = field(&stat, self.inactive_file).unwrap_or_default();
        Some(Cgroup {
            usage,
            limit: number(&self.limit).filter(|limit| *limit < NO_LIMIT),
            working_set: usage.saturating_sub(inactive),
        })
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number after a name, in the format of `/proc/self/status`.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Without a limit, cgroup version 1 reports the largest possible number of pages.
const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use std::fs;

    use admin_types::memory::Cgroup;

    use super::{MemoryCgroup, field};

    #[test]
    fn proc_and_cgroup_fields_are_found_by_name() {
        let text = "VmRSS:\t  1234 kB\nThreads:\t7\n";
        assert_eq!(field(text, "VmRSS:"), Some(1234));
        assert_eq!(field(text, "Threads:"), Some(7));
        assert_eq!(field(text, "VmSwap:"), None);
        assert_eq!(field("inactive_file 12\n", "inactive_file"), Some(12));
    }

    #[test]
    fn inactive_file_pages_are_not_part_of_the_working_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let group = MemoryCgroup::in_folder(folder.path());
        assert_eq!(group.read(), None);
        for (name, text) in [
            ("memory.current", "1000\n"),
            ("memory.stat", "file 500\ninactive_file 300\n"),
            ("memory.max", "max\n"),
        ] {
            fs::write(folder.path().join(name), text).expect("our own folder");
        }
        let unlimited = Cgroup {
            usage: 1000,
            limit: None,
            working_set: 700,
        };
        assert_eq!(group.read(), Some(unlimited.clone()));
        fs::write(folder.path().join("memory.max"), "2000\n").expect("our own folder");
        let limit = Some(2000);
        assert_eq!(group.read(), Some(Cgroup { limit, ..unlimited }));
    }
}
