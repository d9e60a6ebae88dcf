import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchema } from '@gantry/json-schema'
import { codes } from '../src/index.ts'
import { schemas } from '../src/schemas/index.ts'
import * as examples from './examples.ts'

type Name = keyof typeof schemas
type Value = { readonly [key: string]: unknown }

const validators = Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, compileSchema(schema)]))

function accepts(name: Name, value: unknown): boolean {
  return validators[name]?.check(value) ?? assert.fail(name)
}

/** The value without one member, or with others. */
function without(value: Value, key: string): Value {
  return Object.fromEntries(Object.entries(value).filter(([each]) => each !== key))
}

const { minimalTool, fullTool, minimalCall, fullCall, minimalError, fullError, minimalResult, fullResult } = examples
const { events, chain, chainResult } = examples

const valid: { readonly [K in Name]: readonly unknown[] } = {
  tool: [minimalTool, fullTool],
  call: [minimalCall, fullCall],
  result: [minimalResult, fullResult, { ...minimalResult, later: 'addition' }],
  'stream-event': [...events, { ...events[0], later: 'addition' }],
  chain: [[], chain],
  'chain-result': [chainResult, without(chainResult, 'error'), { ...chainResult, steps: [], later: 1 }],
  error: [minimalError, fullError, ...Object.keys(codes).map((code) => ({ ...minimalError, code }))],
}

const invalid: { readonly [K in Name]: readonly unknown[] } = {
  tool: [
    { ...minimalTool, timeoutMS: 5 },
    { ...minimalTool, effect: 'write' },
    { ...minimalTool, timeoutMs: 0 },
    { ...minimalTool, inputSchema: 'object' },
    { ...minimalTool, backends: [{ name: 'x' }] },
    { ...minimalTool, retry: {} },
    { ...minimalTool, limits: { bytes: 1 } },
    { ...minimalTool, placement: { cores: 2 } },
    { ...minimalTool, cost: -1 },
  ],
  call: [
    { ...minimalCall, identity: { principal: 'root' } },
    { ...minimalCall, args: [] },
    { ...minimalCall, callId: '' },
    { ...minimalCall, deadline: 'tomorrow' },
    { ...minimalCall, trace: {} },
  ],
  result: [
    { ...minimalResult, status: 'success' },
    { ...minimalResult, content: [{ type: 'text' }] },
    { ...minimalResult, content: [{ type: 'video', data: '' }] },
    { ...minimalResult, error: { code: 'NOPE' } },
    { ...minimalResult, warnings: [{ code: 'NOPE', message: '' }] },
    { ...minimalResult, effects: [{ kind: 'file' }] },
    { ...minimalResult, usage: { wallMs: -1, enforced: {} } },
    { ...minimalResult, attempts: 1.5 },
    { ...minimalResult, startedAt: 'now' },
  ],
  'stream-event': [
    { id: 1, callId: 'c', kind: 'note' },
    { id: -1, callId: 'c', kind: 'chunk', data: 1 },
    { id: 1, kind: 'chunk', data: 1 },
    { id: 1, callId: 'c', kind: 'log', level: 'fatal', message: '' },
    { id: 1, callId: 'c', kind: 'done' },
    { id: 1, callId: 'c', kind: 'error', result: minimalResult },
  ],
  chain: [
    {},
    ['a:b'],
    [{}],
    [{ tool: 'a:b', arg: {} }],
    [{ tool: 'a:b', id: '1st' }],
    [{ tool: 'a:b', when: { value: 1, equal: 1 } }],
    [{ tool: 'a:b', when: { value: 1, equals: 1, in: [] } }],
    [{ tool: 'a:b', forEach: 3 }],
    [{ tool: 'a:b', onError: 'ignore' }],
    [{ tool: 'a:b', parallel: [] }],
    [{ parallel: [{ parallel: [] }] }],
  ],
  'chain-result': [
    { ...chainResult, status: 'partial' },
    { ...chainResult, steps: [{ id: 'a' }] },
    { ...chainResult, steps: [{ ...chainResult.steps[2], steps: [{}] }] },
  ],
  error: [
    { ...minimalError, code: 'NOPE' },
    { ...minimalError, stage: 'later' },
    { ...minimalError, effect: 'maybe' },
    { ...fullError, cause: { name: 'x' } },
    { ...fullError, details: [] },
  ],
}

for (const name of Object.keys(schemas) as Name[]) {
  test(`the ${name} schema has its own id, refers to no other document and declares its handling of unknown members`, () => {
    const text = JSON.stringify(schemas[name])
    assert.equal(schemas[name].$id, `urn:gantry:contract:1:${name}`)
    assert.ok([...text.matchAll(/"\$ref":"([^"]*)"/g)].every(([, target]) => target?.startsWith('#/$defs/')))
    assert.match(text, /Unknown members are (refused|allowed)/)
    assert.deepEqual(JSON.parse(text), schemas[name])
  })

  test(`the ${name} schema accepts every example, and examples survive a JSON round trip`, () => {
    for (const value of valid[name]) {
      assert.deepEqual(validators[name]?.issues(value), [])
      const read = JSON.parse(JSON.stringify(value))
      assert.deepEqual(read, value)
      assert.ok(accepts(name, read))
    }
  })

  test(`the ${name} schema refuses broken examples`, () => {
    for (const value of [...invalid[name], null, 7, 'text'])
      assert.equal(accepts(name, value), false, JSON.stringify(value))
  })
}

test('required members of a type are required by its schema, and optional members are not', () => {
  const pairs: readonly [Name, Value, Value][] = [
    ['tool', minimalTool, fullTool],
    ['call', minimalCall, fullCall],
    ['result', minimalResult, fullResult],
    ['error', minimalError, fullError],
    ['chain-result', without(chainResult, 'error'), chainResult],
  ]
  for (const [name, minimal, full] of pairs) {
    for (const key of Object.keys(full))
      assert.equal(accepts(name, without(full, key)), !(key in minimal), `${name} ${key}`)
  }
})

test('calls, tools and chains refuse unknown members; results, events and errors allow them', () => {
  const answers = [
    ...[accepts('tool', { ...minimalTool, x: 1 }), accepts('call', { ...minimalCall, x: 1 })],
    ...[accepts('chain', [{ tool: 'a:b', x: 1 }]), accepts('result', { ...minimalResult, x: 1 })],
    ...[accepts('chain-result', { ...chainResult, x: 1 }), accepts('stream-event', { ...events[0], x: 1 })],
    accepts('error', { ...minimalError, x: 1 }),
  ]
  assert.deepEqual(answers, [false, false, false, true, true, true, true])
})
