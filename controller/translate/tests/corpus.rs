//! Inputs that the fuzzer once found interesting, and every case of the other tests, checked again.

use std::fs;
use std::path::Path;

#[path = "../../../proxy/fuzz/checks/yaml_translate.rs"]
mod yaml_translate;

#[test]
fn corpus_files_are_translated() {
    for folder in [
        "../../proxy/fuzz/corpus/yaml_translate",
        "tests/golden",
        "tests/admit",
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut checked = 0;
        for entry in fs::read_dir(folder).expect("the folder exists") {
            let path = entry.expect("an entry can be read").path();
            yaml_translate::check(&fs::read(path).expect("the file can be read"));
            checked += 1;
        }
        assert!(checked > 5, "there are no files");
    }
}
