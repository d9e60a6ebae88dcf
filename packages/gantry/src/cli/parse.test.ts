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

test('options are accepted before, between and after the operands', async () => {
  const expected = { command: 'run', operands: ['demo:add', '{}'], options: { json: true, timeout: 5_000 } }
  assert.deepEqual(await parseCommandLine(['run', 'demo:add', '{}', '--json', '--timeout', '5s']), expected)
  assert.deepEqual(await parseCommandLine(['--json', 'run', '--timeout=5s', 'demo:add', '{}']), expected)
})

test('a command of two words takes precedence over a command of one word', async () => {
  assert.equal((await parseCommandLine(['config', 'check'])).command, 'config check')
  await refuses(['config'], /needs one more word: gantry config check/)
  await refuses(['config', 'chek'], /Did you mean config check\?/)
  await refuses(['tools', 'apprve', 'a:b'], /does not know what to do with "apprve"\. Did you mean tools approve\?/)
})

test('a single dash is an operand, and nothing after -- is an option', async () => {
  assert.deepEqual((await parseCommandLine(['run', 'a:b', '-'])).operands, ['a:b', '-'])
  assert.deepEqual((await parseCommandLine(['search', '--', '--json'])).operands, ['--json'])
})

test('an unknown command or option is refused with the nearest name', async () => {
  await refuses(['rnu', 'a:b'], /There is no command "rnu"\. Did you mean run/)
  await refuses(['run', 'a:b', '--timout', '5s'], /There is no option "--timout"\. Did you mean --timeout\?/)
  await refuses(['run', 'a:b', '-x'], /There is no option "-x"/)
  await refuses(['run', 'a:b', '--__proto__'], /There is no option/)
})

test('a word of a command, or its name in another program, suggests the command', async () => {
  await refuses(['approve'], /There is no command "approve"\. Did you mean approvals approve or tools approve\?/)
  await refuses(['key'], /Did you mean keys create or keys ls or keys rotate or keys revoke\?/)
  await refuses(['replay'], /Did you mean calls replay\?/)
  await refuses(['retry'], /Did you mean dlq redrive\?/)
  await refuses(
    ['keys', 'list'],
    /There is no command "keys list"\. keys is followed by create, ls, rotate, revoke\. Did you mean keys ls\?/,
  )
  await refuses(['key', 'create', 'ci'], /There is no command "key"\. Did you mean keys create\?/)
  await refuses(['demo:add', '{}'], /Did you mean run demo:add\?/)
  await refuses(['audit', 'zzzz'], /audit is followed by ls, export, verify\./)
  await refuses(['constructor'], /There is no command "constructor"\.$/)
})

test('an option of another command is refused with the name of that command', async () => {
  await refuses(['run', 'a:b', '--resume', 'x'], /gantry run has no option --resume\. It belongs to chain/)
})

test('an invalid duration, count or level is refused with the allowed values', async () => {
  for (const time of ['5x', '0', '-1', 'soon', '', '1e3', '99999999999m', '5S', '5 s']) {
    await refuses(['run', 'a:b', `--timeout=${time}`], /--timeout takes a time above 0 such as 200ms, 5s or 2m/)
  }
  await refuses(['tools', '--limit', 'ten'], /--limit takes a whole number above 0, not "ten"/)
  await refuses(
    ['describe', 'a:b', '--level', 'all'],
    /--level takes summary, types, schema, full, debug, info, warn, error, not "all"/,
  )
  await refuses(['run', 'a:b', '--timeout'], /--timeout needs a value: --timeout TIME/)
  await refuses(['run', 'a:b', '--json=yes'], /--json takes no value/)
})

test('durations have units', async () => {
  const times = { '200ms': 200, '5s': 5_000, '2m': 120_000, '250': 250, '1.5s': 1_500, '0.2ms': 1 }
  for (const [text, ms] of Object.entries(times)) {
    assert.equal((await parseCommandLine(['run', 'a:b', '--timeout', text])).options.timeout, ms, text)
  }
})

test('missing and superfluous operands are refused by name', async () => {
  await refuses(['run'], /gantry run needs <tool>\. For example: gantry run demo:add/)
  await refuses(['search'], /needs <words>/)
  await refuses(['run', 'a:b', '{a:', '1}'], /does not know what to do with "1}"\. Put quotes around the JSON/)
})

test('--help and --version take precedence over missing operands', async () => {
  assert.deepEqual((await parseCommandLine(['run', '--help'])).operands, ['run'])
  assert.equal((await parseCommandLine(['-V'])).options.version, true)
  assert.equal((await parseCommandLine([])).command, 'help')
})

test('the first word of a group of commands has its own help page', async () => {
  const expected = { command: 'help', operands: ['config'], options: { help: true } }
  assert.deepEqual(await parseCommandLine(['config', '--help']), expected)
  assert.deepEqual((await parseCommandLine(['config', 'check', '-h'])).operands, ['config check'])
})

test('an option without a command is refused, help and version excepted', async () => {
  await refuses(['--json'], /^--json needs a command\.$/)
  await refuses(['--timeout', '5s'], /^--timeout needs a command\.$/)
  assert.equal((await parseCommandLine(['--json', '--help'])).command, 'help')
  assert.equal((await parseCommandLine(['--json', '--version'])).command, 'help')
})

test('--json is recognised on a command line that cannot be parsed', () => {
  assert.ok(wantsJson(['nonsense', '--json']))
  assert.ok(!wantsJson(['search', '--', '--json']))
})
