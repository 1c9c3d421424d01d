//! Files generated from the schemas, and the charts' versions.

use charts::{CHARTS, Schema, path, values_file, with_table};
use serde_json::Value;

use crate::{check_file, read};

#[test]
fn values_files_are_current() {
    for chart in CHARTS {
        let schema = Schema::of(chart);
        check_file(&path(chart).join("values.yaml"), &values_file(&schema));
    }
}

#[test]
fn tables_in_readmes_are_current() {
    for chart in CHARTS {
        let readme = path(chart).join("README.md");
        check_file(&readme, &with_table(&read(&readme), &Schema::of(chart)));
    }
}

#[test]
fn every_field_is_described() {
    for chart in CHARTS {
        let undescribed = Schema::of(chart).undescribed();
        assert!(undescribed.is_empty(), "{chart}: {undescribed:?}");
    }
}

#[test]
fn charts_have_the_version_of_the_programs() {
    for chart in CHARTS {
        let text = read(&path(chart).join("Chart.yaml"));
        let chart: Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    }
}

/// Charts hold the files that they need: Helm warns about each symbolic link.
#[test]
fn the_seccomp_profile_is_current() {
    let profile = read(&path("../seccomp/gateway.json"));
    check_file(&path("gateway/files/seccomp.json"), &profile);
}
