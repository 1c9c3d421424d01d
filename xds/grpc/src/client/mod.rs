//! The proxy's side: connects to a controller, and carries the requests and responses of
//! [`xds::delta::Client`]. When to connect again, and what becomes of a configuration, is the
//! proxy's.
