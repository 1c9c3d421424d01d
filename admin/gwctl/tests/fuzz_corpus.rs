//! Replays the committed fuzz corpora, so that crashes that were fixed stay fixed.

use std::path::Path;

#[path = "../../../proxy/fuzz/checks/gwctl_dump.rs"]
mod gwctl_dump;
#[path = "../../../proxy/fuzz/checks/gwctl_trace.rs"]
mod gwctl_trace;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../proxy/fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("every target has a corpus") {
        let file = entry.expect("a readable folder").path();
        // The test's output ends with the file that broke it.
        eprintln!("{}", file.display());
        check(&std::fs::read(&file).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn gwctl_dump_corpus() {
    replay("gwctl_dump", gwctl_dump::check);
}

#[test]
fn gwctl_trace_corpus() {
    replay("gwctl_trace", gwctl_trace::check);
}
