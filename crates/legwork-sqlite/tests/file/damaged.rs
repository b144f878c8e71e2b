//! Rows that can be read and do not belong together: whoever reads them is told so, and by name.

use crate::accepting::enter;
use crate::place::FilePlace;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Filter, Store, StoreError};
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::store_suite::Owned;
use rusqlite::Connection;
use std::sync::Arc;

/// One change each that somebody else's hand or a broken disk may make.
const DAMAGES: [&str; 15] = [
    "UPDATE facts SET body = json_set(body, '$.accepted.units[0].task_indexes[0]', 7) WHERE seq = 0",
    "UPDATE facts SET body = json_set(body, '$.accepted.units[0].task_indexes[0]', 1) WHERE seq = 0",
    "UPDATE facts SET body = json_remove(body, '$.accepted.units[1]') WHERE seq = 0",
    "UPDATE facts SET body = json_remove(body, '$.accepted.tasks[1]') WHERE seq = 0",
    "UPDATE facts SET body = json_remove(body, '$.accepted.children[0]') WHERE seq = 0",
    "UPDATE facts SET body = json_set(body, '$.accepted.delegation', 'deleg_0000beef') WHERE seq = 0",
    "UPDATE children SET id = id || 'x' WHERE task = 1",
    "DELETE FROM children WHERE task = 1",
    "DELETE FROM units WHERE place = 1",
    "UPDATE facts SET body = '{' WHERE seq = 0",
    "UPDATE facts SET body = CAST(x'c328' AS TEXT) WHERE seq = 0",
    "UPDATE children SET state = '\"of another program\"' WHERE task = 1",
    "UPDATE children SET pulse = 'no JSON', pulse_at = 1 WHERE task = 0",
    "UPDATE units SET ledger = 'no JSON' WHERE place = 0",
    "UPDATE units SET state = 'elsewhere' WHERE place = 1",
];

#[tokio::test]
async fn k35_rows_that_do_not_belong_together_are_refused_by_name() {
    for damage in DAMAGES {
        let place = FilePlace::new();
        let store = SqliteStore::open(&place.path(), StoreOptions::default()).expect("it opens");
        enter(&store).await;
        let store: Arc<dyn Store> = Arc::new(store);
        let id = Owned::accept(&store, 1, &[&[0], &[1]]).await.accepted.delegation;
        let whole = Owned::accept(&store, 2, &[&[0]]).await.accepted.delegation;
        drop(store);
        let other = Connection::open(place.path()).expect("SQLite works");
        other.pragma_update(None, "foreign_keys", false).expect("SQLite works");
        let first = "(SELECT no FROM delegations WHERE id = 'deleg_00000001')";
        other.execute(&format!("{damage} AND delegation = {first}"), ()).expect(damage);
        drop(other);

        let store = SqliteStore::open(&place.path(), StoreOptions::default()).expect("the file is whole");
        let store: Arc<dyn Store> = Arc::new(store);
        let read = store.delegation(&id).await;
        assert!(
            matches!(&read, Err(StoreError::Corrupt(text)) if text.contains("deleg_00000001")),
            "{damage}: {read:?}"
        );
        for filter in [Filter::Open, Filter::Recent(9)] {
            let listed = store.delegations(filter).await.expect(damage);
            let rows: Vec<&DelegationId> =
                listed.rows.iter().map(|record| &record.accepted.delegation).collect();
            assert_eq!((rows, listed.unreadable), (vec![&whole], vec![id.clone()]), "{damage}");
        }
        let health = store.health().await.expect(damage);
        assert_eq!(health.broken, [id], "{damage}");
    }
}
