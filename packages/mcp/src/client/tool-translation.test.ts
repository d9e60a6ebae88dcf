import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toolNameFault } from '@gantry/core/internal/ids/tool-id'
import fc from 'fast-check'
import { headerMarkFault, translateTools } from './discovered-tools.ts'
import { readOptions } from './settings.ts'

const settings = readOptions({ name: 'test', command: ['x'] })

test('translateTools returns only valid tools, whatever a server sends', () => {
  const member = fc.oneof(fc.anything(), fc.string(), fc.constant({ type: 'object' }))
  const foreign = fc.record({
    name: fc.oneof(fc.string(), fc.string({ unit: 'binary', maxLength: 200 })),
    title: member,
    description: member,
    inputSchema: member,
    outputSchema: member,
    annotations: member,
    icons: fc.oneof(member, fc.array(fc.record({ src: fc.webUrl(), sizes: member }))),
  })
  fc.assert(
    fc.property(fc.array(foreign, { maxLength: 5 }), fc.boolean(), (tools, overHttp) => {
      for (const tool of translateTools(tools, settings, overHttp).tools) {
        assert.equal(toolNameFault(tool.name), undefined)
        assert.ok(tool.description.length > 0 && tool.description.length <= 10_000)
        assert.equal(tool.effect, 'once')
        assert.ok(tool.icons?.every(({ src }) => /^(https:|data:image\/)/i.test(src)) ?? true)
      }
    }),
  )
})

const marked = (mark: unknown, type: unknown = 'string') => ({ type, 'x-mcp-header': mark })
const object = (properties: object) => ({ type: 'object', properties })

test('headerMarkFault accepts valid `x-mcp-header` marks', () => {
  assert.equal(headerMarkFault(object({ region: marked('Region') })), undefined)
  assert.equal(headerMarkFault(object({ location: object({ region: marked('Region', 'integer') }) })), undefined)
  assert.equal(headerMarkFault(object({ enum: { enum: [{ 'x-mcp-header': '' }] } })), undefined)
})

test('headerMarkFault says which rule an `x-mcp-header` mark breaks', () => {
  const wrong: readonly [object, RegExp][] = [
    [marked('Root', 'object'), /no argument is reached/],
    [object({ a: marked('') }), /not the name of a header/],
    [object({ a: marked('two words') }), /not the name of a header/],
    [object({ a: marked('X\r\nY') }), /not the name of a header/],
    [object({ a: marked('Score', 'number') }), /not a string, integer or boolean/],
    [object({ a: marked('Same'), b: marked('same') }), /same header twice/],
    [object({ a: { type: 'array', items: marked('Item') } }), /no argument is reached/],
    [{ ...object({}), allOf: [object({ a: marked('Deep') })] }, /no argument is reached/],
  ]
  for (const [schema, expected] of wrong) assert.match(headerMarkFault(schema) ?? 'nothing', expected)
})

test('an excluded tool stays excluded under every spelling that normalizes to its name', () => {
  const strict = readOptions({ name: 'test', command: ['x'], exclude: ['delete_file'] })
  const named = (name: string) => ({ name, description: 'It.', inputSchema: { type: 'object' } })
  const { tools } = translateTools(['delete_file', 'delete file', 'delete/file', 'read'].map(named), strict, false)
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['read'],
  )
})
