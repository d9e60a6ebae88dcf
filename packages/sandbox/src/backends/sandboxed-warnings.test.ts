import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import type { JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'

const gantry = createExecutor({ tools: builtinTools(), runtimes: { pool: false } })
after(() => gantry.close())

const left = [{ code: 'OUTPUT_INVALID', message: '1 __proto__ keys were left out of the output.' }]
const python = 'import json\nreturn json.loads(\'{"__proto__": {"admin": true}, "a": 1}\')'
const javascript = `return JSON.parse('{"__proto__": {"admin": true}, "a": 1}')`

for (const runtime of ['wasm', 'process']) {
  const skip = runtime === 'process' && noBubblewrap !== undefined ? noBubblewrap : false
  for (const [language, code] of Object.entries({ python, javascript })) {
    test(`a __proto__ key in the value of ${language} in ${runtime} is left out with a warning`, { skip }, async () => {
      const { status, output, warnings } = await gantry.run('code:run', { language, code, runtime })
      assert.deepEqual([status, (output as JsonObject).value], ['ok', { a: 1 }])
      assert.deepEqual(warnings, left)
    })
  }
}

const needsProcess = { skip: noBubblewrap ?? false }

test('commands and sessions warn about values left out of descriptor 3', needsProcess, async () => {
  const script = `echo '{"value": {"__proto__": 1, "a": 1}}' >&3; echo no json >&3`
  const { output, warnings } = await gantry.run('shell:run', { script })
  assert.deepEqual((output as JsonObject).value, { a: 1 })
  const lines = {
    code: 'OUTPUT_INVALID',
    message: '1 lines on descriptor 3 were left out: they are no JSON, too long or too many.',
  }
  assert.deepEqual(warnings, [...left, lines])

  const opened = await gantry.run('code:session', { action: 'open', language: 'python' })
  const session = (opened.output as JsonObject).session as string
  const ran = await gantry.run('code:session', { action: 'run', session, code: python })
  assert.deepEqual([(ran.output as JsonObject).value, ran.warnings], [{ a: 1 }, left])
  const plain = await gantry.run('code:session', { action: 'run', session, code: 'return 1' })
  assert.deepEqual(plain.warnings, [])
})

for (const runtime of ['wasm', 'process']) {
  const skip = runtime === 'process' && noBubblewrap !== undefined ? noBubblewrap : false
  test(`a session in ${runtime} that reports its progress 25,000 times keeps its value`, { skip }, async () => {
    const opened = await gantry.run('code:session', { action: 'open', language: 'python', runtime })
    const { session } = opened.output as JsonObject
    const chatty = `import os
line = b'{"progress": 1, "message": "%s"}\\n' % (b'x' * 68)
for _ in range(1000): os.write(3, line * 25)
return 7`
    const ran = await gantry.run('code:session', { action: 'run', session: session as string, code: chatty })
    assert.deepEqual([ran.status, (ran.output as JsonObject).value], ['ok', 7])
    assert.match(ran.warnings[0]?.message ?? '', /lines on descriptor 3 were left out/)
  })
}
