import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { fakeContext, testBackend } from '@gantry/conformance/internal/backend'
import { noBubblewrap, sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { JsonObject, Tool } from '@gantry/contract'
import type { Measured } from '@gantry/core/internal/backends/backend'
import { openSandboxes } from '@gantry/tools'
import { sandboxedBackend } from './sandboxed.ts'

const runtimes = await openSandboxes({ pool: false })
after(() => runtimes.close())

function toolOf(name: string, binding: JsonObject, more: Partial<Tool> = {}): Tool {
  return {
    namespace: 'test',
    name,
    version: '1.0.0',
    description: name,
    inputSchema: { type: 'object' },
    backends: [{ kind: 'sandboxed', ...binding }],
    effect: 'once',
    ...more,
  }
}

const add = toolOf('add', {
  language: 'python',
  code: 'import json, sys\nargs = json.load(sys.stdin)\nreturn {"result": args["a"] + args["b"]}',
})

if (noBubblewrap === undefined) {
  testBackend('sandboxed', async () => ({
    backend: collected(),
    add,
    fail: toolOf('fail', { script: 'echo it broke >&2; exit 3' }),
    wait: toolOf('wait', { command: ['sleep', '60'] }),
  }))
}

/** The suite calls a backend without a pipeline, which would pull the generator to its end. */
function collected() {
  const backend = sandboxedBackend(async () => runtimes)
  return {
    ...backend,
    async call(call: Parameters<typeof backend.call>[0], given: Parameters<typeof backend.call>[1]) {
      if (call.tool.name === 'stranger') throw new Error('no such tool')
      const said: Measured[] = []
      const generator = backend.call(call, { ...given, measured: (facts) => void said.push(facts) }) as AsyncGenerator
      let step = await generator.next()
      while (step.done !== true) step = await generator.next()
      const failure = said.find((facts) => facts.failure !== undefined)?.failure
      if (failure !== undefined) throw failure
      return step.value
    },
  }
}

test('a binding without a program, with two, or with a secret is refused with every issue', () => {
  const backend = sandboxedBackend(async () => runtimes)
  const check = (binding: JsonObject, more: Partial<Tool> = {}) => {
    const tool = toolOf('x', binding, more)
    backend.check?.(tool.backends[0] as Tool['backends'][0], tool)
  }
  assert.throws(() => check({}), { code: 'CONFIG_INVALID' })
  assert.throws(() => check({ script: 'true', command: ['true'] }), { code: 'CONFIG_INVALID' })
  assert.throws(() => check({ code: 'x' }), /language/)
  assert.throws(() => check({ scirpt: 'true' }), /did you mean "script"/)
  assert.throws(() => check({ script: 'true' }, { secrets: ['TOKEN'] }), /secrets/)
  check({ script: 'true' })
})

sandboxTest('arguments are data on stdin: no shell ever reads them', async () => {
  const echo = toolOf('echo', { script: 'cat' })
  const args = { text: '$(touch /work/pwned); `id` "quoted"\n--flag' }
  const call = { id: 'test:echo:1.0.0', tool: echo, args, binding: echo.backends[0] as JsonObject }
  assert.deepEqual(await collected().call(call, fakeContext()), args)
})
