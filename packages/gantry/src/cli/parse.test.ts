import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { parseCommandLine, wantsJson } from './parse.ts'

function refuses(line: readonly string[], message: RegExp): Promise<void> {
  return assert.rejects(parseCommandLine(line), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'INPUT_INVALID')
    assert.equal(error.stage, 'admit')
    assert.match(error.message, message)
    return true
  })
}

test('options may stand before, between and after the operands', async () => {
  const expected = { command: 'run', operands: ['demo:add', '{}'], options: { json: true, timeout: 5_000 } }
  assert.deepEqual(await parseCommandLine(['run', 'demo:add', '{}', '--json', '--timeout', '5s']), expected)
  assert.deepEqual(await parseCommandLine(['--json', 'run', '--timeout=5s', 'demo:add', '{}']), expected)
})

test('a command of two words is found before one of one word', async () => {
  assert.equal((await parseCommandLine(['config', 'check'])).command, 'config check')
  await refuses(['config'], /needs one more word: gantry config check/)
  await refuses(['config', 'chek'], /Did you mean config check\?/)
  await refuses(['tools', 'apprve', 'a:b'], /does not know what to do with "apprve"\. Did you mean tools approve\?/)
})

test('a lone dash is an operand, and nothing behind two dashes is an option', async () => {
  assert.deepEqual((await parseCommandLine(['run', 'a:b', '-'])).operands, ['a:b', '-'])
  assert.deepEqual((await parseCommandLine(['search', '--', '--json'])).operands, ['--json'])
})

test('an unknown command or option comes with the nearest one', async () => {
  await refuses(['rnu', 'a:b'], /There is no command "rnu"\. Did you mean run/)
  await refuses(['run', 'a:b', '--timout', '5s'], /There is no option "--timout"\. Did you mean --timeout\?/)
  await refuses(['run', 'a:b', '-x'], /There is no option "-x"/)
  await refuses(['run', 'a:b', '--__proto__'], /There is no option/)
})

test('an option of another command says whose it is', async () => {
  await refuses(['run', 'a:b', '--resume', 'x'], /gantry run has no option --resume\. It belongs to chain/)
})

test('times, counts and levels that cannot be read say what is allowed', async () => {
  for (const time of ['5x', '0', '-1', 'soon', '', '1e3', '99999999999m', '5S', '5 s']) {
    await refuses(['run', 'a:b', `--timeout=${time}`], /--timeout takes a time above 0 such as 200ms, 5s or 2m/)
  }
  await refuses(['tools', '--limit', 'ten'], /--limit takes a whole number above 0, not "ten"/)
  await refuses(['describe', 'a:b', '--level', 'all'], /--level takes summary, types, schema, full, not "all"/)
  await refuses(['run', 'a:b', '--timeout'], /--timeout needs a value: --timeout TIME/)
  await refuses(['run', 'a:b', '--json=yes'], /--json takes no value/)
})

test('times have units', async () => {
  const times = { '200ms': 200, '5s': 5_000, '2m': 120_000, '250': 250, '1.5s': 1_500, '0.2ms': 1 }
  for (const [text, ms] of Object.entries(times)) {
    assert.equal((await parseCommandLine(['run', 'a:b', '--timeout', text])).options.timeout, ms, text)
  }
})

test('missing and superfluous operands are named', async () => {
  await refuses(['run'], /gantry run needs <tool>\. For example: gantry run demo:add/)
  await refuses(['search'], /needs <words>/)
  await refuses(['run', 'a:b', '{a:', '1}'], /does not know what to do with "1}"\. Put quotes around the JSON/)
})

test('help and version win over what is missing', async () => {
  assert.deepEqual((await parseCommandLine(['run', '--help'])).operands, ['run'])
  assert.equal((await parseCommandLine(['-V'])).options.version, true)
  assert.equal((await parseCommandLine([])).command, 'help')
})

test('a word that only begins commands has a page of its own', async () => {
  const expected = { command: 'help', operands: ['config'], options: { help: true } }
  assert.deepEqual(await parseCommandLine(['config', '--help']), expected)
  assert.deepEqual((await parseCommandLine(['config', 'check', '-h'])).operands, ['config check'])
})

test('an option without a command is refused, help and version excepted', async () => {
  await refuses(['--json'], /^--json needs a command beside it\.$/)
  await refuses(['--timeout', '5s'], /^--timeout needs a command beside it\.$/)
  assert.equal((await parseCommandLine(['--json', '--help'])).command, 'help')
  assert.equal((await parseCommandLine(['--json', '--version'])).command, 'help')
})

test('the wish for JSON is seen on a line that cannot be parsed', () => {
  assert.ok(wantsJson(['nonsense', '--json']))
  assert.ok(!wantsJson(['search', '--', '--json']))
})
