import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolError } from '@gantry/contract'
import { openPglite } from '../pglite.ts'

/**
 * Run in a mount namespace of its own: copies the database that it is given to a small disk, writes until that is full,
 * then makes the disk larger. Says as JSON how the first failure looked, what was acknowledged before it, and what is
 * there when there is space again.
 */
const [, , template = '', folder = ''] = process.argv
execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=80m', 'tmpfs', folder])
cpSync(template, join(folder, 'db'), { recursive: true })
const database = await openPglite({ folder })
await database.query('create table filled (id integer, text text)')
// Random text, because what repeats is compressed.
const write = (id: number): Promise<unknown> =>
  database.query(`insert into filled select $1, string_agg(md5(random()::text), '') from generate_series(1, 10000)`, [
    id,
  ])
let acknowledged = 0
let failure: ToolError | undefined
while (failure === undefined) {
  await write(acknowledged + 1).then(
    () => {
      acknowledged += 1
    },
    (error: ToolError) => {
      failure = error
    },
  )
}
execFileSync('mount', ['-o', 'remount,size=400m', folder])
await write(-1)
const rows = await database.query('select id from filled where id > 0')
await database.close()
const { code, details } = failure
console.log(JSON.stringify({ code, details, acknowledged, found: rows.length }))
