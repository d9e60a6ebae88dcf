import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { readLock } from './lock-files.ts'
import { type PackageOptions, packageChecks, readPackages } from './package-lists.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-lists-'))
after(() => rmSync(folder, { recursive: true }))

const hostilePython = [
  '--index-url http://127.0.0.1/simple',
  '-e .',
  '-r other.txt',
  '--extra-index-url=x',
  'six @ file:///etc/six.whl',
  'file:///etc/six.whl',
  './six.whl',
  '/etc/six.whl',
  '../six',
  'git+ssh://host/six',
  'https://127.0.0.1/six.whl',
  'six==1.0 --hash=sha256:00',
  'six==1.0\n--index-url x',
  'six==1.0 \\',
  '$(id)',
  '',
  `six==${'1'.repeat(300)}`,
]
const hostileNode = [
  '--registry=http://127.0.0.1',
  '-g',
  'lodash@file:../x',
  'lodash@npm:other@1',
  'lodash@git+ssh://host/x',
  'user/repository',
  'https://127.0.0.1/x.tgz',
  './x',
  '../x',
  '@scope',
  'lodash@1 --ignore-scripts=false'.replace(' ', '\n'),
  '',
]

test('options of the clients, URLs, paths, and several lines are refused in a list, each at its path', () => {
  for (const [kind, lines, good] of [
    ['python', hostilePython, 'six==1.17.0'],
    ['node', hostileNode, 'lodash@4.17.21'],
  ] as const) {
    for (const line of lines) {
      const [issue, ...others] = packageChecks[kind].issues({ packages: [good, line] }, '/runtimes')
      assert.deepEqual([issue?.path, others], ['/runtimes/packages/1', []], JSON.stringify(line))
    }
  }
})

test('names with extras, ranges of versions and markers are accepted', () => {
  const python = ['numpy', 'numpy==2.1.3', 'uvicorn[standard] >= 0.30, < 1', `x ~= 1.0; python_version < "3.12"`]
  assert.deepEqual(packageChecks.python.issues({ packages: python, lock: 'a.lock' }, ''), [])
  const node = ['lodash', 'lodash@4.17.21', '@scope/a.b@^1.0.0', 'x@>=1 <2 || 3.x', 'y@latest']
  assert.deepEqual(packageChecks.node.issues({ packages: node }, ''), [])
})

test('a list that is empty, is no list, or has an unknown option is refused with its path', () => {
  const paths = (value: unknown): unknown => packageChecks.python.issues(value, '').map(({ path }) => path)
  assert.deepEqual(paths({ packages: [] }), ['/packages'])
  assert.deepEqual(paths({ packages: 'six' }), ['/packages'])
  assert.deepEqual(paths({ packages: [7, 'six'] }), ['/packages/0'])
  assert.deepEqual(paths({ packages: { requirement: 'a.txt' } }), ['/packages/requirement', '/packages/requirements'])
  assert.deepEqual(paths({ packages: ['six'], locks: 'a' }), ['/locks'])
})

function read(options: PackageOptions, kind: 'python' | 'node'): Promise<readonly string[] | undefined> {
  return readPackages(options, kind).then((source) => source?.list)
}

test('a requirements file and a package.json are read like a list, and each wrong line is named', async () => {
  const requirements = join(folder, 'requirements.txt')
  writeFileSync(requirements, '# comment\nsix==1.17.0  # why\n\nidna>=3\nsix==1.17.0\n')
  assert.deepEqual(await read({ python: { packages: { requirements } } }, 'python'), ['idna>=3', 'six==1.17.0'])
  writeFileSync(requirements, 'six\n-e .\n--index-url http://127.0.0.1/\n')
  await assert.rejects(read({ python: { packages: { requirements } } }, 'python'), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID')
    assert.deepEqual(
      error.details?.issues?.map(({ path, message }) => [path, /line \d/.exec(message)?.[0]]),
      [
        ['/runtimes/python/packages/requirements', 'line 2'],
        ['/runtimes/python/packages/requirements', 'line 3'],
      ],
    )
    return true
  })
  const manifest = join(folder, 'package.json')
  writeFileSync(manifest, JSON.stringify({ dependencies: { lodash: '^4.0.0' }, scripts: { install: 'id' } }))
  assert.deepEqual(await read({ node: { packages: { manifest } } }, 'node'), ['lodash@^4.0.0'])
  writeFileSync(manifest, JSON.stringify({ dependencies: { lodash: 'file:..' } }))
  await assert.rejects(read({ node: { packages: { manifest } } }, 'node'), /dependencies\.lodash/)
  await assert.rejects(
    read({ node: { packages: { manifest: join(folder, 'nothing.json') } } }, 'node'),
    /nothing\.json, which does not exist/,
  )
})

test('a list or lock that never ends, or is longer than allowed, is refused without being read whole', async () => {
  const endless = { python: { packages: { requirements: '/dev/zero' } } }
  await assert.rejects(read(endless, 'python'), /\/dev\/zero, which is not a regular file/)
  const long = join(folder, 'long.txt')
  writeFileSync(long, '#'.repeat(262_145))
  await assert.rejects(read({ python: { packages: { requirements: long } } }, 'python'), /more than 262144 bytes/)
  const source = await readPackages({ python: { packages: ['six'], lock: '/dev/zero' } }, 'python')
  assert.ok(source)
  await assert.rejects(readLock(source), /\/dev\/zero is not a regular file/)
})

test('the user and password of a URL are not in the message about its line', async () => {
  const lines = [
    '--index-url https://user:s3cret@host/simple',
    'six @ https://oauth2:s3cret@host/six.whl',
    'six @ git+https://s3cret@host',
  ]
  const requirements = join(folder, 'tokens.txt')
  writeFileSync(requirements, lines.join('\n'))
  await assert.rejects(read({ python: { packages: { requirements } } }, 'python'), (error) => {
    assert.ok(ToolError.is(error))
    assert.doesNotMatch(JSON.stringify([error.message, error.details]), /s3cret/)
    return /https:\/\/\[redacted\]@host/.test(error.message)
  })
  assert.doesNotMatch(JSON.stringify(packageChecks.python.issues({ packages: lines }, '')), /s3cret/)
})
