//! The `gwctl` binary.

fn main() -> std::process::ExitCode {
    gwctl::main()
}
