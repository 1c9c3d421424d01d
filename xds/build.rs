//! Compiles the protocol files of the model, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // All resources and the messages that carry them; protox finds their imports.
    const MESSAGES: [&str; 8] = [
        "backend.proto",
        "bind.proto",
        "discovery.proto",
        "listener.proto",
        "policy.proto",
        "route.proto",
        "service.proto",
        "workload.proto",
    ];
    const FOLDER: &str = "src/proto";
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = protox::compile(MESSAGES, [FOLDER])?;
    prost_build::Config::new()
        // Resources are encoded once and shared by all responses that carry them.
        .bytes([".envoy.service.discovery.v3"])
        // A proxy that reconnects reports its versions: both sides have them in this order.
        .btree_map([".envoy.service.discovery.v3"])
        // They have private keys, which must never be printed: `src/proto/mod.rs` implements `Debug`.
        .skip_debug([
            "gateway_system.model.v1.ApiKey",
            "gateway_system.model.v1.Certificate",
            "gateway_system.model.v1.PasswordHash",
            "gateway_system.model.v1.SessionKeys",
        ])
        .compile_fds(files)?;
    Ok(())
}
