//! The in-memory store keeps the promises of the port.

use legwork_testkit::memory::MemoryStore;

legwork_testkit::store_suite!(MemoryStore::new());
