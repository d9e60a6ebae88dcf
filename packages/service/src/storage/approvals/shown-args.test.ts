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

test('large files are truncated one by one, and short arguments stay complete', () => {
  const padding = 'z'.repeat(7_000)
  const files = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`f${n}`, padding]))
  const { args, truncated } = shown({ argv: ['true'], files: { ...files, small: 'rm -rf' } })
  const seen = args.files as JsonObject
  assert.deepEqual([args.argv, seen.small, truncated.length, truncated[0]], [['true'], 'rm -rf', 50, '/files/f0'])
  const mark = ` [truncated: 7000 bytes in all, sha256:${hash('sha256', padding)}]`
  assert.equal(seen.f0, `${'z'.repeat(1_024)}…${mark}`)
})

test('an argument with too many members is truncated as a whole, and the other arguments stay complete', () => {
  const many = Array.from({ length: 100_000 }, (_, n) => n)
  const names = Object.fromEntries(many.slice(0, 30_000).map((n) => [`f${n}`, '']))
  const { args, truncated } = shown({ files: names, list: many, argv: ['true'], deep: { a: [{ b: 1 }] } })
  assert.deepEqual([args.argv, args.deep, truncated], [['true'], { a: [{ b: 1 }] }, ['/files', '/list']])
  const mark = `[truncated: ${JSON.stringify(many).length} bytes in all, sha256:${hash('sha256', JSON.stringify(many))}]`
  assert.ok(String(args.list).startsWith('[0,1,2,') && String(args.list).endsWith(mark))
})

test('too many arguments are listed up to the limit, and the root is marked as truncated', () => {
  const args = Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`a${n}`, n]))
  const seen = shown({ ['k'.repeat(300_000)]: 1, ...args })
  assert.deepEqual([seen.args.a0, seen.truncated], [0, ['']])
  assert.ok(Object.keys(seen.args).length > 5_000)
})

test('no number of plain URLs, invisible characters or repeated hosts displaces the note on a deceptive URL', () => {
  const evil = 'https://x:1@evil.example\\@good.example/'
  const many = (text: string) => Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`q${n}`, text]))
  const fillers = [
    'https://good.example/',
    'HTTPS://GOOD.EXAMPLE',
    'a\u200b',
    'https://u@good.example/',
    'https://10.1/',
  ]
  for (const filler of fillers) {
    const { notes = [], notesOmitted = 0 } = shownArgs(JSON.stringify({ query: many(filler), url: evil }), false)
    const note = notes.find(({ path }) => path === '/url')
    assert.ok(note?.kind === 'url', filler)
    assert.deepEqual([note.host, note.userinfo], ['evil.example', 'x:1'])
    assert.ok(notes.indexOf(note) <= 1, filler)
    assert.equal(notes.length + notesOmitted, 301, filler)
  }
})

test('a URL is plain only when a reader sees the host that is dialled', () => {
  const plain = [
    'https://good.example',
    'http://good.example:8080/a?b#c',
    'https://GOOD.example/x',
    'https://10.0.0.1/',
  ]
  const other = [
    'https://good.example@evil.example/',
    'https://good.example:x@evil.example/',
    'https://evil.example\\@good.example/',
    'https:evil.example/',
    'https://good.example\t.evil.example/',
    'https://2130706433/',
    'https://ex\u0430mple.com/',
    `https://${'u'.repeat(9_000)}@evil.example/`,
  ]
  const { notes = [] } = shownArgs(JSON.stringify([...plain, ...other]), true)
  const indexes = notes.flatMap(({ kind, path }) => (kind === 'url' ? [Number(path.slice(1))] : []))
  assert.equal(indexes.length, plain.length + other.length)
  assert.deepEqual(indexes.slice(-plain.length), [...plain.keys()], 'the plain ones come last')
})
