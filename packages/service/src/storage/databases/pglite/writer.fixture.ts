import { migrate } from '../migrate.ts'
import { openPglite } from '../pglite.ts'

/**
 * Opens the folder that it is given and adds rows until it is killed: says what was there (`found 7`), then each row
 * after it was acknowledged (`wrote 8`). Rows come in twos, by one statement or by a transaction.
 */
const database = await openPglite({ folder: process.argv[2] ?? '' })
await migrate(database)
await database.query('create table if not exists kept (id integer primary key, pair integer not null)')
const [found] = await database.query<{ n: number; pairs: number; last: number | null }>(
  'select count(*) as n, count(distinct pair) as pairs, max(id) as last from kept',
)
const { n = 0, pairs = 0, last } = found ?? {}
if (n !== (last ?? 0) || n !== pairs * 2) console.log(`torn ${n} ${pairs} ${last}`)
console.log(`found ${n}`)
for (let id = n + 1; ; id += 2) {
  if (id % 4 === 1) await database.query('insert into kept values ($1, $1), ($1 + 1, $1)', [id])
  else {
    await database.transaction(async (queries) => {
      await queries.query('insert into kept values ($1, $2)', [id, id])
      await queries.query('insert into kept values ($1, $2)', [id + 1, id])
    })
  }
  console.log(`wrote ${id + 1}`)
}
