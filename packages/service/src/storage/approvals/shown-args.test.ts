import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import type { Json, JsonObject } from '@gantry/contract'
import { shownArgs } from './shown-args.ts'

const wholeBytes = 262_144

function shown(args: Json): { readonly args: JsonObject; readonly truncated: readonly string[] } {
  const text = JSON.stringify(args)
  const { args: seen, truncated = [] } = shownArgs(text, false)
  assert.ok(seen !== undefined)
  assert.ok(Buffer.byteLength(JSON.stringify(seen)) <= wholeBytes + 2)
  assert.equal(JSON.stringify(shownArgs(text, true).args), text)
  return { args: seen as JsonObject, truncated }
}

test('padding with many files cuts the files, and the short arguments are shown', () => {
  const padding = 'z'.repeat(7_000)
  const files = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`f${n}`, padding]))
  const { args, truncated } = shown({ argv: ['true'], files: { ...files, small: 'rm -rf' } })
  const seen = args.files as JsonObject
  assert.deepEqual([args.argv, seen.small, truncated.length, truncated[0]], [['true'], 'rm -rf', 50, '/files/f0'])
  const mark = ` [truncated: 7000 bytes in all, sha256:${hash('sha256', padding)}]`
  assert.equal(seen.f0, `${'z'.repeat(1_024)}…${mark}`)
})

test('padding with many members cuts the argument that has them, and the other arguments are shown', () => {
  const many = Array.from({ length: 100_000 }, (_, n) => n)
  const names = Object.fromEntries(many.slice(0, 30_000).map((n) => [`f${n}`, '']))
  const { args, truncated } = shown({ files: names, list: many, argv: ['true'], deep: { a: [{ b: 1 }] } })
  assert.deepEqual([args.argv, args.deep, truncated], [['true'], { a: [{ b: 1 }] }, ['/files', '/list']])
  const mark = `[truncated: ${JSON.stringify(many).length} bytes in all, sha256:${hash('sha256', JSON.stringify(many))}]`
  assert.ok(String(args.list).startsWith('[0,1,2,') && String(args.list).endsWith(mark))
})

test('arguments that are too many themselves are shown as far as there is room, and that says so', () => {
  const args = Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`a${n}`, n]))
  const seen = shown({ ['k'.repeat(300_000)]: 1, ...args })
  assert.deepEqual([seen.args.a0, seen.truncated], [0, ['']])
  assert.ok(Object.keys(seen.args).length > 5_000)
})
