import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Ended, gantry, node, type SpawnOptions, shell } from '../../service/test/spawn.fixture.ts'

describe('the gantry command', { concurrency: 2 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-cli-'))
  const cache = join(folder, 'cache')
  mkdirSync(join(folder, '.git'))
  const file = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content)
    return name
  }
  const run = (line: readonly string[], options: Partial<SpawnOptions> = {}): Promise<Ended> =>
    gantry(line, { folder, cache, ...options })
  /** Checks the exit code and that stdout is one JSON document. */
  const json = async (code: number, line: readonly string[], options: Partial<SpawnOptions> = {}) => {
    const ended = await run([...line, '--json'], options)
    assert.equal(ended.code, code, ended.err)
    assert.match(ended.out, /^[^\n]+\n$/)
    return { ...ended, value: JSON.parse(ended.out) }
  }
  // A tool that reports its start, and ends only when its signal aborts.
  const waiting = file(
    'waiting.config.mjs',
    `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'wait', description: 'Waits.', inputSchema: { type: 'object' },
  run: (_, { log, signal }) => new Promise((resolve) => { signal.addEventListener('abort', resolve); log('warn', 'started') }) })] }`,
  )
  // The first two runs fill the caches, so that all others start fast and from the linked script.
  before(async () => {
    for (let round = 0; round < 2; round++) await run(['run', 'demo:add', '{"a":1,"b":1}'])
  })
  after(() => rmSync(folder, { recursive: true, force: true }))

  test('run --json prints one Result and nothing else', async () => {
    const { value, err } = await json(0, ['run', 'demo:add', '{"a":5,"b":3}'])
    assert.equal(value.status, 'ok')
    assert.deepEqual(value.output, { result: 8 })
    assert.equal(err, '')
  })

  test('run without --json prints only the output', async () => {
    const { code, out, err } = await run(['run', 'demo:add', '{"a":5,"b":3}'])
    assert.deepEqual([code, out, err], [0, '{\n  "result": 8\n}\n', ''])
  })

  test('arguments are also read from stdin or a file', async () => {
    const piped = await run(['run', 'demo:echo', '-'], { input: '{"value": "piped"}' })
    assert.match(piped.out, /piped/)
    const read = await run(['run', 'demo:echo', `@${file('args.json', '{"value": "read"}')}`])
    assert.match(read.out, /read/)
  })

  test('arguments of the wrong type exit with 2 and their path', async () => {
    const { value, err } = await json(2, ['run', 'demo:add', '{"a":"5","b":3}'])
    assert.equal(value.error.code, 'INPUT_INVALID')
    assert.equal(value.error.details.issues[0].path, '/a')
    assert.match(err, /^INPUT_INVALID: .*\n {2}\/a must be number/)
  })

  test('an unknown tool exits with 2 and near names', async () => {
    const { value, err } = await json(2, ['run', 'demo:ad', '{}'])
    assert.equal(value.error.code, 'TOOL_NOT_FOUND')
    assert.deepEqual(value.error.details.nearest, ['demo:add'])
    assert.match(err, /did you mean demo:add/)
  })

  test('malformed JSON exits with 2, its line and column', async () => {
    const { value, err } = await json(2, ['run', 'demo:add', '{"a":5,\n b}'])
    assert.equal(value.error.code, 'PAYLOAD_INVALID')
    assert.deepEqual(Object.keys(value.error).slice(0, 5), ['code', 'message', 'stage', 'retryable', 'effect'])
    assert.match(err, /line 2, column 2/)
  })

  test('an invalid command line exits with 2 and a suggestion, as JSON with --json', async () => {
    const { value } = await json(2, ['run', 'demo:add', '--timout', '5s'])
    assert.equal(value.error.details.nearest[0], '--timeout')
    const plain = await run(['rnu'])
    assert.deepEqual([plain.code, plain.out], [2, ''])
    assert.match(plain.err, /There is no command "rnu"\. Did you mean run/)
  })

  test('a failed tool exits with 1, and its message is escaped for the terminal', async () => {
    const { code, out, err } = await run(['run', 'demo:fail', '{"message":"bad \\u001b[31mluck"}'])
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^BACKEND_FAILED: bad \\e\[31mluck\n/)
  })

  test('a call that times out exits with 4', async () => {
    const { value } = await json(4, ['run', 'demo:sleep', '{"ms":60000}', '--timeout', '200ms'])
    assert.equal(value.status, 'timeout')
  })

  test('a denied call exits with 3', async () => {
    const config = file('deny.yaml', 'demo: true\npolicy:\n  default: allow\n  rules: [{ deny: "demo:add" }]\n')
    const { value } = await json(3, ['run', 'demo:add', '{"a":5,"b":3}', '--config', config])
    assert.equal(value.error.code, 'DENIED')
  })

  test('stream prints one event per line, with increasing ids and one end', async () => {
    const { code, out } = await run(['stream', 'demo:countdown', '{"from":3,"delayMs":1}', '--json'])
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(code, 0)
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_, index) => index + 1),
    )
    const kinds = events.map(({ kind }) => kind)
    assert.ok(kinds.includes('progress'))
    assert.equal(kinds.filter((kind) => kind === 'chunk').length, 3)
    assert.equal(kinds.indexOf('done'), kinds.length - 1)
  })

  test('stream without --json prints chunks, then the output', async () => {
    const { out } = await run(['stream', 'demo:countdown', '{"from":2,"delayMs":1}'])
    assert.equal(out, '2\n1\n{\n  "counted": 2\n}\n')
  })

  test('a chain binds its input, stops at a failure and can be resumed', async () => {
    const steps = [
      { id: 'sum', tool: 'demo:add', args: { a: '{{input.a}}', b: 1 } },
      { id: 'twice', tool: 'demo:add', args: { a: '{{prev.result}}', b: '{{prev.result}}' } },
    ]
    const done = await json(0, ['chain', JSON.stringify(steps), '--input', '{"a":2}'])
    assert.deepEqual(done.value.output, { result: 6 })
    const name = file('chain.json', JSON.stringify({ steps, input: { a: 'two' } }))
    const stopped = await json(2, ['chain', name])
    assert.match(stopped.err, / {2}sum failed\n {2}twice pending\n/)
    const resumed = await run(['chain', name, '--input', '{"a":1}', '--resume', file('out.json', stopped.out)])
    assert.deepEqual(JSON.parse(resumed.out), { result: 4 })
  })

  test('a chain that times out exits with 4', async () => {
    const { value } = await json(4, ['chain', '[{"tool":"demo:sleep","args":{"ms":60000}}]', '--timeout', '200ms'])
    assert.equal(value.error.code, 'TIMEOUT')
  })

  test('tools, search and describe print pages and documents', async () => {
    const tools = await json(0, ['tools', '--namespace', 'demo', '--limit', '2'])
    assert.equal(tools.value.items.length, 2)
    const next = await json(0, ['tools', '--namespace', 'demo', '--limit', '2', '--cursor', tools.value.cursor])
    assert.notDeepEqual(next.value.items, tools.value.items)
    const found = await json(0, ['search', 'add', 'numbers'])
    assert.equal(found.value.items[0].id, 'demo:add')
    const described = await json(0, ['describe', 'demo:add', '--level', 'full'])
    assert.equal(described.value.examples.length, 1)
    const missing = await json(2, ['describe', 'demo:ad'])
    assert.equal(missing.value.error.code, 'TOOL_NOT_FOUND')
  })

  for (const [name, signal] of [
    ['an interrupt', 'SIGINT'],
    ['a termination', 'SIGTERM'],
  ] as const) {
    test(`${name} cancels the call, prints its Result and exits with 6`, async () => {
      const { value } = await json(6, ['run', 'my:wait', '--config', waiting], {
        onStart: (child) => child.stderr?.once('data', () => child.kill(signal)),
      })
      assert.equal(value.status, 'cancelled')
    })
  }

  test('a second signal exits at once with 130 when the first did not end the process', async () => {
    const file = join(folder, 'deaf.config.mjs')
    writeFileSync(
      file,
      `const close = () => { console.error('closing'); return new Promise(() => {}) }
export default { backends: [{ kind: 'deaf', name: 'deaf', call: () => null, close }] }`,
    )
    // Signals are sent until the process ends: two that come together count as one press.
    let sending: NodeJS.Timeout | undefined
    const { code } = await gantry(['tools', '--config', file], {
      folder,
      cache,
      onStart: (child) =>
        child.stderr?.once('data', () => {
          sending = setInterval(() => child.kill('SIGINT'), 150)
        }),
    })
    clearInterval(sending)
    assert.equal(code, 130)
  })

  test('a signal during exit does not change the exit code', async () => {
    const file = join(folder, 'heavy.config.mjs')
    // A large heap makes the last part of the end, after the exit code was decided, last.
    writeFileSync(
      file,
      `import { writeSync } from 'node:fs'
const heavy = Array.from({ length: 2_000_000 }, (_, n) => ({ n }))
process.on('exit', () => writeSync(2, 'ending' + heavy.length))
export default {}`,
    )
    let sending: NodeJS.Timeout | undefined
    const { code, signal } = await gantry(['tools', '--config', file], {
      folder,
      cache,
      onStart: (child) =>
        child.stderr?.once('data', () => {
          sending = setInterval(() => child.kill('SIGTERM'), 1)
        }),
    })
    clearInterval(sending)
    assert.deepEqual([code, signal], [0, null])
  })

  test('a closed stdout cancels the call without a message', async () => {
    const line = `gantry stream demo:countdown '{"from":1000,"delayMs":5}' --json | head -n 1`
    const { code, out, err } = await shell(line, { folder, cache })
    assert.match(out, /^[^\n]+\n$/)
    assert.deepEqual([code, err], [6, ''])
  })

  test('a stdout closed after the call has ended does not change the exit code', async () => {
    const { code, err } = await shell('gantry tools | true', { folder, cache })
    assert.deepEqual([code, err], [0, ''])
  })

  const full = { skip: !existsSync('/dev/full') && 'there is no /dev/full here' }
  test('output that cannot be written is reported and exits with 1', full, async () => {
    const lines = [
      `run demo:add '{"a":5,"b":3}' --json`,
      `stream demo:countdown '{"from":3}'`,
      'tools',
      'help',
      'rnu --json',
    ]
    for (const line of lines) {
      const { code, err } = await shell(`gantry ${line} > /dev/full`, { folder, cache })
      assert.equal(code, 1, line)
      assert.match(err, /^The output could not be written\.\n {2}because of ENOSPC/m, line)
    }
  })

  test('an unwritable stderr does not lose the output', full, async () => {
    const { code, out } = await shell(`gantry run my:wait --timeout 50ms --json --config ${waiting} 2> /dev/full`, {
      folder,
      cache,
    })
    assert.deepEqual([code, JSON.parse(out).status], [4, 'timeout'])
  })

  test('a large output is written completely', async () => {
    const value = 'x'.repeat(900_000)
    const { value: result } = await json(0, ['run', 'demo:echo', '-'], { input: JSON.stringify({ value }) })
    assert.equal(result.output.value.length, 900_000)
  })

  test('the CLI reads only regular files, so that no pipe or device blocks it', async () => {
    const pipe = join(folder, 'pipe')
    assert.equal(spawnSync('mkfifo', [pipe]).status, 0)
    const lines = [
      ['run', 'demo:echo', '@pipe'],
      ['run', 'demo:echo', '@/dev/zero'],
      ['chain', 'pipe'],
      ['chain', '[]', '--input', '@pipe'],
      ['chain', '[]', '--resume', 'pipe'],
    ]
    for (const line of lines) {
      const { value } = await json(2, line)
      assert.equal(value.error.code, 'PAYLOAD_INVALID', line.join(' '))
      assert.match(value.error.message, /is not a regular file/)
    }
    const { value } = await json(2, ['tools', '--config', 'pipe'])
    assert.equal(value.error.code, 'CONFIG_INVALID')
  })

  test('a configuration that throws a hostile value exits with 2', async () => {
    const trap = '{ get() { throw 1 } }'
    for (const thrown of [
      '{ toString() { throw 1 } }',
      `Object.defineProperties(new Error('x'), { name: ${trap}, message: ${trap}, stack: ${trap} })`,
    ]) {
      const { value } = await json(2, ['tools', '--config', file('hostile.config.mjs', `throw ${thrown}`)])
      assert.equal(value.error.code, 'CONFIG_INVALID')
      const rejecting = file('rejecting.config.mjs', `Promise.reject(${thrown}); export default { demo: true }`)
      const listed = await json(0, ['tools', '--config', rejecting])
      assert.match(listed.err, /^warning: uncaught error outside of a call: /)
    }
  })

  test('config check prints what was loaded, or every error', async () => {
    const good = await json(0, ['config', 'check', '--config', file('good.json', '{"limits":{"timeoutMs":5}}')])
    assert.deepEqual(good.value.limits, { timeoutMs: 5 })
    const bad = await json(2, ['config', 'check', '--config', file('bad.json', '{"limit":{},"demo":1}')])
    assert.equal(bad.value.error.details.issues.length, 2)
    assert.match(bad.err, /\/limit is not a known key; did you mean limits\?/)
  })

  test('a configuration that defines tools works from the bundle', async () => {
    const config = file(
      'own.config.ts',
      `import { defineTool } from '@gantry/core'
const hi: unknown = defineTool({ namespace: 'my', name: 'hi', description: 'Says hi.', inputSchema: { type: 'object' }, run: () => 'hi' })
const wrong = defineTool({ namespace: 'my', name: 'no', description: 'No.', inputSchema: { type: 'sting' }, run: () => 1 })
export default { tools: process.env.WRONG ? [hi, wrong] : [hi] }`,
    )
    const { out } = await run(['run', 'my:hi', '--config', config])
    assert.equal(out, 'hi\n')
    const checked = await run(['config', 'check', '--config', config], { environment: { WRONG: '1' } })
    assert.equal(checked.code, 2)
    assert.match(checked.err, /\/tools\/1\/inputSchema/)
  })

  test('a tool that leaves a handle open does not delay the exit', async () => {
    const config = file(
      'open.config.mjs',
      `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'open', description: 'Leaves a timer.', inputSchema: { type: 'object' },
  run: () => { setInterval(() => {}, 1000); Promise.reject(new Error('unhandled')); return 'done' } })] }`,
    )
    const { code, out, err } = await run(['run', 'my:open', '--config', config])
    assert.deepEqual([code, out], [0, 'done\n'])
    assert.match(err, /uncaught error outside of a call: Error: unhandled/)
  })

  // A module that prints in every way there is, while it loads and when its tools run; without core it loads fast.
  const loud = file(
    'loud.config.mjs',
    `import { stdout } from 'node:process'
console.log('while loading')
const data = { namespace: 'my', version: '1.0.0', description: 'Prints.', inputSchema: { type: 'object' }, effect: 'read' }
const tool = (name, run) => ({ tool: { ...data, name, backends: [{ kind: 'local' }] }, run })
export default { tools: [
  tool('print', () => { console.log('one'); process.stdout.write('two\\n'); stdout.write('three\\n'); return 'done' }),
  tool('exit', () => process.exit(0)),
] }`,
  )

  test('output printed by a tool or a configuration goes to stderr', async () => {
    const { value, err } = await json(0, ['run', 'my:print', '--config', loud])
    assert.equal(value.output, 'done')
    assert.equal(err, 'while loading\none\ntwo\nthree\n')
    const plain = await run(['stream', 'my:print', '--config', loud])
    assert.equal(plain.out, 'done\n')
    await json(0, ['chain', '[{"tool":"my:print"}]', '--config', loud])
    await json(0, ['tools', '--config', loud])
    await json(0, ['config', 'check', '--config', loud])
  })

  test('a tool that exits the process does not exit with 0', async () => {
    const { code, out, err } = await run(['run', 'my:exit', '--json', '--config', loud])
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^The process ended before the command did, .*process\.exit/m)
  })

  test('tools call the backends of a configuration', async () => {
    const config = file(
      'backend.config.mjs',
      `import { defineTool } from '@gantry/core'
const far = { kind: 'far', name: 'moon', call: ({ args, binding }) => [binding.path, args] }
export default { backends: [far], tools: [defineTool({ namespace: 'my', name: 'far', description: 'Far away.',
  inputSchema: { type: 'object' }, backends: [{ kind: 'far', name: 'moon', path: '/x' }] })] }`,
    )
    const { value } = await json(0, ['run', 'my:far', '{"a":1}', '--config', config])
    assert.deepEqual([value.backend, value.output], [{ kind: 'far', name: 'moon' }, ['/x', { a: 1 }]])
    const checked = await run(['config', 'check', '--config', config])
    assert.match(checked.out, /^backends: far:moon$/m)
  })

  test('an unused variable is a warning on stderr', async () => {
    const { err } = await json(0, ['tools'], { environment: { GANTRY_TIMEOUT: '5' } })
    assert.match(err, /GANTRY_TIMEOUT is not used\. Did you mean GANTRY_TIMEOUT_MS\?/)
  })

  test('help, version and completion print to stdout', async () => {
    assert.match((await run(['help', 'run'])).out, /Usage: gantry run <tool> \[json\]/)
    const group = await run(['config', '--help'])
    assert.deepEqual([group.code, group.err], [0, ''])
    assert.match(group.out, /^Usage: gantry config <command>[\s\S]*^ {2}config check {2}/m)
    assert.equal((await run(['help', 'config'])).out, group.out)
    assert.match((await run(['--version'])).out, /^gantry \d+\.\d+\.\d+\n$/)
    assert.match((await run(['completion', 'bash'])).out, /complete -F _gantry gantry/)
    assert.match((await run(['__complete'])).out, /^demo:add$/m)
  })

  test('the result is the same without any cache', async () => {
    const { value } = await json(0, ['run', 'demo:add', '{"a":5,"b":3}'], {
      environment: { NODE_DISABLE_COMPILE_CACHE: '1' },
    })
    assert.deepEqual(value.output, { result: 8 })
  })

  const older = olderNode()
  test('an older Node starts the CLI with the installed one', {
    skip: older === undefined && 'there is no Node below 24 here',
  }, async () => {
    const program = older ?? node
    const { value } = await json(0, ['run', 'demo:add', '{"a":5,"b":3}'], { program })
    assert.deepEqual(value.output, { result: 8 })
    const stopped = await json(6, ['run', 'my:wait', '--config', waiting], {
      program,
      onStart: (child) => child.stderr?.once('data', () => child.kill('SIGINT')),
    })
    assert.equal(stopped.value.status, 'cancelled')
  })
})

/** A Node of the machine that is too old for us. */
function olderNode(): string | undefined {
  const places = [
    '/usr/local/bin/node',
    '/usr/bin/node',
    ...(process.env.PATH ?? '').split(':').map((path) => join(path, 'node')),
  ]
  return places.find((place) => {
    const { stdout, status } = spawnSync(place, ['-p', 'process.versions.node'], { encoding: 'utf8' })
    return status === 0 && Number.parseInt(stdout, 10) < 24
  })
}
