import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { pgliteDatabase, pgliteFolder } from '../../../test/databases.fixture.ts'
import { failure, testDatabase } from '../../conformance/database.ts'
import { openPglite } from './pglite.ts'

testDatabase('pglite', pgliteDatabase)

const writer = join(import.meta.dirname, 'pglite/writer.fixture.ts')

test('a new database is created in a folder with mode 0700, also after an interrupted attempt', async (t) => {
  const parent = mkdtempSync(join(tmpdir(), 'gantry-pglite-'))
  t.after(() => rmSync(parent, { recursive: true }))
  const folder = join(parent, '.gantry')
  mkdirSync(join(folder, 'db.new'), { recursive: true, mode: 0o700 })
  writeFileSync(join(folder, 'db.new/PG_VERSION'), '18\n')
  const database = await openPglite({ folder })
  await database.close()
  assert.equal(statSync(folder).mode & 0o777, 0o700)
  assert.equal(statSync(join(folder, 'db')).mode & 0o077, 0)
  assert.deepEqual(readdirSync(folder).sort(), ['db', 'lock'])
})

test('acknowledged writes survive each of four kills, and no transaction is there in part', async (t) => {
  const folder = await pgliteFolder(t)
  let last = 0
  for (let kills = 0; kills < 4; kills++) {
    const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    let doomed = false
    for await (const line of createInterface({ input: child.stdout })) {
      const [word, count] = line.split(' ')
      assert.ok(word === 'found' || word === 'wrote', line)
      assert.ok(Number(count) >= last, `${line} after ${last} were acknowledged`)
      last = Number(count)
      if (word !== 'wrote' || doomed) continue
      doomed = true
      setTimeout(() => child.kill('SIGKILL'), Math.random() * 200)
    }
  }
  assert.ok(last >= 8)
})

test('a folder can be opened once; this and other processes are refused with the pid of its owner', async (t) => {
  const folder = await pgliteFolder(t)
  const database = await openPglite({ folder })
  const error = await failure(openPglite({ folder }))
  assert.equal(error.code, 'SERVICE_UNAVAILABLE')
  assert.ok(error.message.startsWith(`${folder} is in use by process ${process.pid} `), error.message)
  const other = spawnSync(process.execPath, [writer, folder], { encoding: 'utf8', timeout: 30_000 })
  assert.notEqual(other.status, 0)
  assert.match(other.stderr, new RegExp(`SERVICE_UNAVAILABLE|in use by process ${process.pid} `))
  // Opening and closing the lock file in this process, or removing it, releases its POSIX lock.
  readFileSync(join(folder, 'lock'))
  rmSync(join(folder, 'lock'))
  const third = spawnSync(process.execPath, [writer, folder], { encoding: 'utf8', timeout: 30_000 })
  assert.match(third.stderr, new RegExp(`SERVICE_UNAVAILABLE|in use by process ${process.pid} `))
  assert.equal((await database.query('select 1 as one'))[0]?.one, 1)
  await database.close()
  const again = await openPglite({ folder })
  await again.close()
  assert.equal(existsSync(join(folder, 'lock.pid')), false)
})

test('a statement over its time limit is aborted with its thread, and the next one runs on a new thread', async (t) => {
  const folder = await pgliteFolder(t)
  const database = await openPglite({ folder, statementMs: 2_000 })
  t.after(() => database.close())
  const received: (string | undefined)[] = []
  await database.listen('gantry_ready', (payload) => received.push(payload))
  await database.query('create table words (id integer)')
  const error = await failure(database.query('insert into words select 1 from pg_sleep(60)'))
  assert.deepEqual([error.code, error.effect, error.details?.outcome], ['STORE_UNAVAILABLE', 'possible', 'unknown'])
  assert.deepEqual(await database.query('select id from words'), [])
  await database.query(`select pg_notify('gantry_ready', 'here')`)
  assert.deepEqual(received, [undefined, 'here'])
})

const ownMounts = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const small = { skip: !ownMounts && 'mounting a small disk needs root' }
test(
  'a full disk is STORE_UNAVAILABLE, keeps acknowledged writes, and writes work again once there is space',
  small,
  async (t) => {
    const folder = await pgliteFolder(t)
    const disk = mkdtempSync(join(tmpdir(), 'gantry-disk-'))
    t.after(() => rmSync(disk, { recursive: true }))
    const script = join(import.meta.dirname, 'pglite/full-disk.fixture.ts')
    const ended = spawnSync('unshare', ['--mount', process.execPath, script, join(folder, 'db'), disk], {
      encoding: 'utf8',
      timeout: 120_000,
    })
    assert.equal(ended.status, 0, ended.stderr)
    const { code, details, acknowledged, found } = JSON.parse(ended.stdout)
    assert.deepEqual([code, details.sqlstate], ['STORE_UNAVAILABLE', '53100'])
    // The last write may be committed although it was not acknowledged.
    assert.ok(acknowledged > 0 && (found === acknowledged || found === acknowledged + 1), `${found} of ${acknowledged}`)
  },
)

test('the event loop is not blocked while a statement runs', async (t) => {
  const database = await pgliteDatabase(t)
  let turns = 0
  const counting = setInterval(() => {
    turns += 1
  }, 1)
  await database.query('select pg_sleep(0.5)')
  clearInterval(counting)
  assert.ok(turns > 5, `${turns} turns`)
})

test('dead rows are vacuumed and checkpoints written in the background', async (t) => {
  const database = await pgliteDatabase(t)
  const state = async () => {
    const [row] = await database.query(`
      select vacuum_count as vacuums, (select redo_lsn::text from pg_control_checkpoint()) as checkpoint
      from pg_stat_user_tables where relname = 'words'`)
    return row
  }
  await database.query('create table words (id integer)')
  await database.query('insert into words select generate_series(1, 5000)')
  const before = await state()
  await database.query('update words set id = -id')
  for (let size = 0; size < 50; size++) {
    await database.query(`select pg_logical_emit_message(false, 'test', repeat('x', 1048576))`)
  }
  for (let now = before; now?.vacuums === 0 || now?.checkpoint === before?.checkpoint; now = await state()) {
    await pause(100)
  }
})
