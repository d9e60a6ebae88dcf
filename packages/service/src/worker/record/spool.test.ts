import assert from 'node:assert/strict'
import { appendFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { someEnding, someResult } from '../../conformance/call-store/samples.ts'
import type { Ending } from '../../storage/calls/call-store.ts'
import { openSpool } from './spool.ts'

async function temporary(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-spool-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function ending(callId: string): Ending {
  const result = someResult(callId, { output: { text: 'line\nbreak\u0000' } })
  return someEnding({ callId, fence: 1 }, { result, bytes: 10 })
}

const never = (): void => assert.fail('nothing is spoilt')

test('outcomes are drained in the order in which they were added, and nothing is left', async (t) => {
  const folder = await temporary(t)
  const spool = await openSpool(folder, never)
  await spool.add([ending('a'), ending('b')])
  await spool.add([ending('c')])
  assert.equal(spool.depth, 3)
  const seen: string[] = []
  await spool.drain(async (endings) => void seen.push(...endings.map(({ callId }) => callId)))
  assert.deepEqual(seen, ['a', 'b', 'c'])
  assert.equal(spool.depth, 0)
  assert.deepEqual(await readdir(folder), [])
})

test('the spool keeps the call’s data with its outcome, and reads outcomes without it', async (t) => {
  const folder = await temporary(t)
  const plain = {
    tool: 'a:b:1.0.0',
    principal: 'ada',
    keyed: true,
    reply: { transport: 'redis', to: 'answers' },
  } as const
  const endings = [{ ...ending('plain'), plain }, ending('of an older version')]
  await writeFile(join(folder, '999999999-1.jsonl'), endings.map((one) => `${JSON.stringify(one)}\n`).join(''))
  const spool = await openSpool(folder, never)
  const seen: Ending[] = []
  await spool.drain(async (kept) => void seen.push(...kept))
  assert.deepEqual(seen, endings)
})

test('outcomes that could not be recorded stay, and come first the next time', async (t) => {
  const folder = await temporary(t)
  const spool = await openSpool(folder, never)
  await spool.add([ending('a')])
  await assert.rejects(
    spool.drain(() => Promise.reject(new Error('unavailable'))),
    /unavailable/,
  )
  await spool.add([ending('b')])
  const seen: string[] = []
  await spool.drain(async (endings) => void seen.push(...endings.map(({ callId }) => callId)))
  assert.deepEqual(seen, ['a', 'b'])
})

test('the outcomes of a dead process are drained by the next, up to a truncated line', async (t) => {
  const folder = await temporary(t)
  const file = join(folder, '999999999-1.jsonl')
  await writeFile(file, `${JSON.stringify(ending('old'))}\n${JSON.stringify(ending('older'))}\n`)
  await appendFile(file, '{"callId":"cut o')
  const spool = await openSpool(folder, never)
  assert.equal(spool.depth, 2)
  await spool.add([ending('new')])
  const seen: unknown[] = []
  await spool.drain(async (endings) => void seen.push(...endings))
  assert.deepEqual(seen, [ending('old'), ending('older'), ending('new')])
  assert.deepEqual(await readdir(folder), [])
})

test('the file of a live process is left to it', async (t) => {
  const folder = await temporary(t)
  const first = await openSpool(folder, never)
  await first.add([ending('a')])
  const second = await openSpool(folder, never)
  assert.equal(second.depth, 0)
})

test('a folder that cannot be written refuses the outcome', async (t) => {
  const folder = await temporary(t)
  const spool = await openSpool(join(folder, 'spool'), never)
  await rm(join(folder, 'spool'), { recursive: true })
  await writeFile(join(folder, 'spool'), 'a file')
  await assert.rejects(spool.add([ending('a')]), (error) => ToolError.is(error) && error.code === 'STORE_UNAVAILABLE')
  assert.equal(spool.depth, 0)
})

test('a line that cannot be parsed is put aside, and the others are drained', async (t) => {
  const folder = await temporary(t)
  const lines = [
    JSON.stringify(ending('a')),
    '{"callId":"x","fence":1,"resu',
    '{}',
    '\0\0',
    JSON.stringify(ending('b')),
  ]
  await writeFile(join(folder, '999999999-1.jsonl'), `${lines.join('\n')}\n`)
  const spoilt: [string, number][] = []
  const spool = await openSpool(folder, (file, count) => void spoilt.push([file, count]))
  const seen: string[] = []
  await spool.drain(async (endings) => void seen.push(...endings.map(({ callId }) => callId)))
  assert.deepEqual(seen, ['a', 'b'])
  const aside = '999999999-1.jsonl.spoilt'
  assert.deepEqual(spoilt, [[join(folder, aside), 3]])
  assert.deepEqual(await readdir(folder), [aside])
})
