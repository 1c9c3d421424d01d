//! Replays the committed fuzz corpus: whatever once broke the check may not break it again.

use std::path::Path;

#[path = "../../proxy/fuzz/checks/admin_request.rs"]
mod admin_request;

#[test]
fn admin_request_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/fuzz/corpus/admin_request");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the target has a corpus") {
        let file = entry.expect("a readable folder").path();
        // The test's output ends with the file that broke it.
        eprintln!("{}", file.display());
        admin_request::check(&std::fs::read(&file).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
