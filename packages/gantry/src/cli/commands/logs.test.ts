import assert from 'node:assert/strict'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startServiceRig } from '../service.fixture.ts'

function line(level: string, msg: string, fields: object = {}): string {
  return `${JSON.stringify({ level, time: '2026-01-01T00:00:00.000Z', pid: 1, ...fields, msg })}\n`
}

test('logs shows the log of the data folder with its predecessor, by level and number', async (t) => {
  const { gantry, json, folder } = await startServiceRig(t)
  assert.match((await gantry(['logs'])).err, /There is no log .*service\.log/)
  const file = join(folder, '.gantry/service.log')
  writeFileSync(`${file}.1`, line('warn', 'old', { text: '\u001b[31m' }))
  writeFileSync(file, `${line('info', 'call ended', { status: 'ok' })}not JSON\n${line('error', 'bad')}`)
  const all = await gantry(['logs'])
  const at = '2026-01-01T00:00:00.000Z'
  assert.equal(
    all.out,
    [
      `${at} service warn old text=\\e[31m\n`,
      `${at} service info call ended status=ok\n`,
      '- service info not JSON\n',
      `${at} service error bad\n`,
    ].join(''),
  )
  const chosen = await json(['logs', '--level', 'warn', '--limit', '1'])
  assert.deepEqual(chosen.values, [{ source: 'service', time: at, level: 'error', message: 'bad', fields: {} }])
  assert.equal((await gantry(['logs', '--level', 'full'])).code, 2)
  const elsewhere = await gantry(['logs'], { environment: { GANTRY_URL: 'http://127.0.0.1:1' } })
  assert.match(elsewhere.err, /is where it runs/)
})

test('logs --follow prints lines that are added, until it is interrupted', async (t) => {
  const { gantry, folder } = await startServiceRig(t)
  const file = join(folder, '.gantry/service.log')
  writeFileSync(file, line('info', 'first'))
  const stop = new AbortController()
  const seen: string[] = []
  const ended = await gantry(['logs', '--follow'], {
    signal: stop.signal,
    async out(text) {
      seen.push(text)
      if (text.includes('first')) appendFileSync(file, line('info', 'second'))
      else stop.abort()
    },
  })
  assert.deepEqual([ended.code, seen.length], [0, 2])
  assert.match(seen[1] ?? '', /second/)
})

test('logs of a call shows its audit entries, the lines of its tool and those of the service', async (t) => {
  const { gantry, json, folder, post } = await startServiceRig(t)
  const answer = await post('/v1/calls', { tool: 'demo:add', args: { a: 1, b: 2 }, waitMs: 1_000 })
  const { callId } = (await answer.json()) as { callId: string }
  writeFileSync(
    join(folder, '.gantry/service.log'),
    line('info', 'call ended', { task_id: callId }) + line('info', 'call ended', { task_id: 'other' }),
  )
  const shown = await json(['logs', callId])
  assert.equal(shown.code, 0, shown.err)
  const own = shown.values.filter(({ source }) => source === 'service')
  assert.deepEqual(
    own.map(({ fields }) => fields),
    [{ task_id: callId }],
  )
  assert.equal((await gantry(['logs', 'nothing'])).code, 2)
})
