//! The SQLite store keeps the promises of the port.

mod place;

use place::FilePlace;

legwork_testkit::store_suite!(FilePlace::new());
