//! No text makes admission panic or lose the objects of another file.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use translate::files::{Configuration, Source, admit};

/// A file that is always valid.
const NEIGHBOUR: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: neighbour}}";

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admit");
    let entries = fs::read_dir(folder).expect("the folder of cases");
    let read = |path| fs::read_to_string(path).expect("a text file");
    let texts = entries.map(|entry| read(entry.expect("an entry").path()));
    let documents =
        texts.flat_map(|text| text.split("\n---").map(str::to_owned).collect::<Vec<_>>());
    documents.collect()
}

fn survives(text: &str) {
    let sources = [
        Source::new("a.yaml", text),
        Source::new("neighbour.yaml", NEIGHBOUR),
    ];
    let admitted = admit(&sources);
    assert!(
        admitted
            .objects
            .iter()
            .any(|(_, place)| place.file == "neighbour.yaml"),
        "{text}"
    );
    let mut configuration = Configuration::default();
    configuration.reload(&[Source::new("a.yaml", NEIGHBOUR)]);
    configuration.reload(&sources);
    for (object, _) in &admitted.objects {
        let place = configuration.locate(&object.object_ref(), Some("spec.rules[0].name"));
        assert!(place.is_some(), "{text}");
    }
}

/// A piece of YAML to insert.
fn piece() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "---\n",
        "...\n",
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "# ",
        "\n",
        "\n  ",
        "\t",
        "%YAML 1.2\n",
        "null",
        "~",
        "0x1",
        "1e999",
        "\u{feff}",
        "\u{85}",
        "\0",
        "é",
        ",",
    ]);
    prop_oneof![3 => token.prop_map(str::to_owned), 1 => ".{0,8}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_does_not_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        survives(&pieces.concat());
    }

    #[test]
    fn any_edit_of_an_object_does_not_panic(
        document in prop::sample::select(corpus()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, piece()), 1..4),
    ) {
        let mut chars: Vec<char> = document.chars().collect();
        for (at, cut, piece) in edits {
            let start = at.index(chars.len() + 1);
            let end = (start + cut).min(chars.len());
            chars.splice(start..end, piece.chars());
        }
        survives(&chars.into_iter().collect::<String>());
    }
}

#[test]
fn deeply_nested_and_repeated_texts_do_not_panic() {
    for (piece, count) in [
        ("- ", 20_000),
        ("[", 200_000),
        ("{a: ", 50_000),
        ("? ", 20_000),
        ("&a ", 20_000),
    ] {
        survives(&piece.repeat(count));
    }
    survives(&"---\n".repeat(50_000));
    survives(&format!("a: {}", "x".repeat(1 << 20)));
}
