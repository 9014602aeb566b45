// Package postgres is the store in a PostgreSQL database, for any number of gateways at once. It promises what package store
// promises, and that
//
//   - it makes no difference to a function which gateway runs it, or that others run: what it has read stays true until it
//     has written, functions of one subject run one after the other, and a runner's cursor, a run's log, a subject's audit
//     log and the revocations are seen in their order by whoever reads them;
//   - a commit that was answered is on the disk, and a commit whose answer was lost is asked after, so an Update that
//     succeeds was carried out once, wherever the way to the database was cut;
//   - a database that is away, or a lock that stays, is a bounded wait and store.ErrBusy, and a lock of one subject hardly
//     holds up another; a disk that is full refuses what was asked (store.ErrFull) and nothing else;
//   - of gateways that start together one migrates, and none starts on a newer schema;
//   - what a dispatch costs does not grow with the runners, runs and events that there are: every statement finds its rows
//     by an index, which a test asks PostgreSQL about, on empty tables and on full ones.
//
// # Who does what
//
//	Update ──▶ queue ──▶ writer:  BEGIN, the clock, the transaction's number
//	                              for each that waits, up to 256:  lock what fn asks about; fn
//	                              what the functions wrote; COMMIT ──▶ ring ──▶ answer all
//	View ────▶ pool of reading connections:  BEGIN REPEATABLE READ, fn, ROLLBACK
//
// # Locks
//
// A function that asks about a subject, or about a run or a runner that a subject has, gets the subject's lock with the same
// trip (key.go). Locks are PostgreSQL's advisory ones: they can be had without waiting, can be had for what is not there yet,
// go with the transaction however it ends, and write nothing. Nobody waits who has something:
//
//	nothing held yet:   wait for the lock, for 250 ms at most
//	else:               try it ──taken──▶ undo the function, let the others commit,
//	                                      then begin anew with all the locks that it ever needed, in one order, waiting
//
// so two gateways cannot wait for each other, whatever their functions need, and a function runs again at most as often as
// there are locks that it needs. It shows in nothing but the time: Update says that fn may run again.
//
// The locks alone carry no promise: every write of a fenced row names what it expects to the database too, and one that does
// not find it is run again with what is there then. A test writes past the locks.
//
// # Decisions
//
// One writer, and one commit for all that wait, as in the twin. A transaction for each function costs less where the
// processors are many, but then the bells need an order of their own; and more gateways are more writers.
//
// READ COMMITTED with locks, not SERIALIZABLE: with up to 256 functions in a transaction nearly every two of them overlap,
// and each would be run again and again.
//
// A trip to the database costs more than most statements, so a function makes few. What it has read or written of a run, a
// step or a runner it knows (known.go), for nobody else may change it. So the answer of a write is known before it is sent,
// and it goes with the next question or with the commit. A savepoint is set only when a write goes out while its function
// still runs. Rows that are mostly asked for together are read together. Audit entries of a transaction are one statement.
//
// Statements that were answered for in advance are sent before the commit, not with it: if one of them fails, the function
// that it belongs to is told or run again, alone, and its neighbours run again without it.
//
// The transaction's number is asked for at its beginning, because pg_xact_status tells by it what became of a commit.
//
// Text is text, for those who look into the database; a byte that PostgreSQL's text cannot hold is escaped (column.go), since
// names are asked for from outside.
//
// Rows are not split as in the twin: a large document lies apart by itself, and a move does not copy it.
//
// The clock is the database's (design, section 5). A gateway's does not go back when that one is set back: it waits.
package postgres
