import assert from 'node:assert/strict'
import { join, relative, win32 } from 'node:path'
import { test } from 'node:test'
import { type SandboxFile, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { checkFiles, checkPath } from './file-path.ts'

function issuesOf(files: { readonly [path: string]: SandboxFile }, limits?: { files: number; bytes: number }) {
  try {
    checkFiles(files, limits)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID', String(error))
    return (error.details?.issues ?? []).map(({ path, message }) => [path, message] as const)
  }
  return []
}

test('plain relative paths are accepted unchanged', () => {
  const paths = [
    'a',
    'a/b/c.txt',
    '.env',
    '..a',
    'a..',
    '...',
    'a b',
    '-rf',
    '~',
    '$(id)',
    'é/日本',
    '12:30',
    '.gantryx/a',
  ]
  for (const path of [...paths, 'a/.gantry', `${'x'.repeat(255)}/y`, 'd/'.repeat(31).concat('f')]) {
    assert.equal(checkPath(path), undefined, path)
  }
})

test('paths that escape the workspace, are reserved, or are not portable are refused', () => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /empty/],
    ['/etc/passwd', /not relative/],
    ['../x', /"\.\."/],
    ['a/../../x', /"\.\."/],
    ['..', /"\.\."/],
    ['./a', /"\."/],
    ['a//b', /""/],
    ['a/', /""/],
    ['a\0b', /control/],
    ['a\nb', /control/],
    ['a\x7fb', /control/],
    ['a\x85b', /control/],
    ['a\u2028b', /control/],
    ['gpj.\u202eexe', /control/],
    ['..\\..\\x', /backslash/],
    ['\ud800', /half/],
    ['.gantry', /runtime's own/],
    ['.gantry/code/main.py', /runtime's own/],
    ['é'.repeat(128), /255 bytes/],
    ['d/'.repeat(32).concat('f'), /32 folders/],
    [`${'x'.repeat(250)}/`.repeat(17).concat('f'), /4096 bytes/],
  ]
  for (const [path, why] of refused) assert.match(checkPath(path) ?? '', why, JSON.stringify(path))
})

test('every accepted path lies below the workspace, by POSIX and by Windows rules', () => {
  const piece = fc.constantFrom('..', '.', '', 'a', '/', '\\', '\0', '.gantry', '%2e%2e', '\u2025', 'é', ' ')
  const path = fc.oneof(
    fc.array(piece, { maxLength: 6 }).map((parts) => parts.join('/')),
    fc.string({ maxLength: 20, unit: 'binary' }),
    fc.array(piece, { maxLength: 6 }).map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(path, (text) => {
      if (checkPath(text) !== undefined) return
      const found = relative('/work', join('/work', text))
      assert.equal(win32.relative('C:\\work', win32.join('C:\\work', text)).replaceAll('\\', '/'), text)
      assert.equal(found, text)
      assert.ok(!['', '..', '.gantry'].includes(found.split('/')[0] ?? ''))
    }),
  )
  assert.ok(relative('/work', join('/work', 'a/../../etc')).startsWith('..'), 'without the check this leads out')
})

test('files become bytes: text as UTF-8, base64 decoded', () => {
  const files = checkFiles({ 'a.txt': 'é', 'b/c.bin': { base64: 'AP8=' }, empty: '', none: { base64: '' } })
  assert.deepEqual(
    [...files].map(([path, bytes]) => [path, [...bytes]]),
    [
      ['a.txt', [0xc3, 0xa9]],
      ['b/c.bin', [0, 255]],
      ['empty', []],
      ['none', []],
    ],
  )
})

test('each invalid file is reported with its JSON pointer', () => {
  const files = { '../x~y': 'a', ok: 'b', half: '\ud800', art: { artifact: 'id' }, bad: { base64: 'a b=' } }
  const issues = issuesOf(files)
  assert.deepEqual(
    issues.map(([path]) => path),
    ['/files/..~1x~0y', '/files/half', '/files/art', '/files/bad'],
  )
  assert.match(issues[2]?.[1] ?? '', /is an artifact, which cannot be read here/)
})

test('non-canonical base64 is refused', () => {
  for (const base64 of ['AP8', 'AP9=', 'AP-_', 'AP8=\n', ' AP8=', 'AP8==', '=', 'AP8=AP8=', '😀']) {
    assert.match(issuesOf({ a: { base64 } })[0]?.[1] ?? '', /not base64/, base64)
  }
})

test('a file cannot also be the folder of another file', () => {
  assert.deepEqual(issuesOf({ 'a/b/c': '1', x: '2', a: '3' }), [['/files/a~1b~1c', 'lies in "a", which is a file too']])
  assert.deepEqual(issuesOf({ 'a/b': '1', 'a/b/c': '2', 'a/bc': '3' }).length, 1)
  assert.deepEqual(issuesOf({ 'constructor/a': '1', 'a/toString': '2' }), [])
})

test('the number and total size of files are bounded', () => {
  const limits = { files: 2, bytes: 10 }
  assert.deepEqual(issuesOf({ a: '12345', b: { base64: 'AAAAAAA=' } }, limits), [])
  assert.match(issuesOf({ a: '', b: '', c: '' }, limits)[0]?.[1] ?? '', /more than 2 files/)
  assert.match(issuesOf({ a: '123456', b: { base64: 'AAAAAAA=' } }, limits)[0]?.[1] ?? '', /more than 10 bytes/)
  assert.match(issuesOf({ a: 'é'.repeat(6) }, limits)[0]?.[1] ?? '', /more than 10 bytes/)
})

test('the error message for a thousand invalid files is bounded', () => {
  const files = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`../${'x'.repeat(4_000)}${n}`, '']))
  assert.throws(
    () => checkFiles(files),
    (error) => ToolError.is(error) && error.message.length < 20_000 && /and 980 more/.test(error.message),
  )
})
