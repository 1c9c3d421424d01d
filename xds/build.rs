//! Compiles the protocol files of the model, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // Every resource; protox finds what they import.
    const RESOURCES: [&str; 7] = [
        "backend.proto",
        "bind.proto",
        "listener.proto",
        "policy.proto",
        "route.proto",
        "service.proto",
        "workload.proto",
    ];
    const FOLDER: &str = "src/proto";
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = protox::compile(RESOURCES, [FOLDER])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
