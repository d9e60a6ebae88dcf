import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LoadedConfig } from '@gantry/service/serve'
import { keptIo } from '../io.fixture.ts'
import { serveHints, serviceOutput } from './serve.ts'

const line =
  '{"level":"info","time":"2026-01-02T03:04:05.678Z","pid":1,"tool":"a\\u001b[2Jb","ms":3,"msg":"call ended"}\n'

test('the log is short escaped lines on a terminal and JSON otherwise', () => {
  const person = keptIo()
  const output = serviceOutput(person, true)
  output.log(line)
  output.log('not json\u001b[2J\n')
  output.say('Try:', { run: 'gantry run x' })
  const expected = '03:04:05 info call ended tool=a\\e[2Jb ms=3\nnot json\\e[2J\nTry:\n  gantry run x\n'
  assert.equal(person.printed.err, expected)
  const program = keptIo()
  const other = serviceOutput(program, false)
  other.log(line)
  other.say('ready', { run: 'gantry run x' })
  const [first, second] = program.printed.err.trimEnd().split('\n')
  assert.equal(`${first}\n`, line)
  const { level, msg, run } = JSON.parse(second ?? '')
  assert.deepEqual([level, msg, run], ['info', 'ready', 'gantry run x'])
})

test('a fatal error is logged with its reason, whatever was thrown', () => {
  const io = keptIo()
  const output = serviceOutput(io, false)
  output.fatal(new Error('left behind'))
  output.fatal({
    get message() {
      throw new Error('no')
    },
  })
  const [first, second] = io.printed.err.trimEnd().split('\n')
  assert.deepEqual([JSON.parse(first ?? '').level, JSON.parse(first ?? '').error], ['fatal', 'Error: left behind'])
  assert.equal(JSON.parse(second ?? '').level, 'fatal')
})

test('the start hints are command lines for this service, with the path of the key file and shell-quoted paths', () => {
  const loaded = { service: { data: "/srv/it's here" }, demo: true } as LoadedConfig
  const url = 'http://127.0.0.1:7420'
  const hints = serveHints(url, loaded, { data: "it's here" }, { environment: {} })
  assert.equal(hints.calls, `gantry calls --data 'it'\\''s here'`)
  assert.match(hints.curl ?? '', /\$\(cat '\/srv\/it'\\''s here\/key'\)/)
  const own = serveHints(
    url,
    { ...loaded, demo: false },
    { config: 'x.json' },
    { environment: { npm_command: 'exec' } },
  )
  assert.equal(own.tools, 'npx gantry tools --config x.json')
  assert.equal(own.run, undefined)
})
