import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { emptyFolder, gantry, node } from './project.fixture.ts'

/** From tarballs in an empty folder: the first hour of a user, as README and docs/cli.md describe it. */

test('npx gantry runs the first call of the README in an empty folder', () => {
  const { stdout, stderr, status } = gantry(['run', 'demo:add', '{"a":5,"b":3}'], emptyFolder())
  assert.equal(status, 0, stderr)
  assert.equal(stdout, '{\n  "result": 8\n}\n')
})

test('the first call by import runs as an ES module and by require', () => {
  const folder = emptyFolder()
  const program = (load: string): string =>
    `${load}
     async function main() {
       const gantry = createExecutor({ tools: demoTools() })
       console.log((await gantry.run('demo:add', { a: 5, b: 3 })).output.result)
       await gantry.close()
     }
     void main()`
  writeFileSync(join(folder, 'first.mjs'), program("import { createExecutor, demoTools } from 'gantry'"))
  writeFileSync(join(folder, 'first.cjs'), program("const { createExecutor, demoTools } = require('gantry')"))
  for (const file of ['first.mjs', 'first.cjs']) {
    const { stdout, stderr, status } = node([file], folder)
    assert.equal(status, 0, stderr)
    assert.equal(stdout, '8\n', file)
  }
})

test('gantry init writes a tool whose test passes with node --test, and which the command runs', () => {
  const folder = emptyFolder()
  const made = gantry(['init'], folder)
  assert.equal(made.status, 0, made.stderr)
  const tested = node(['--test'], folder)
  assert.equal(tested.status, 0, tested.stdout + tested.stderr)
  assert.match(tested.stdout, /^ℹ pass 2$/m)
  const called = gantry(['run', 'my:greet', '{"name":"Ada"}'], folder)
  assert.deepEqual(JSON.parse(called.stdout), { greeting: 'Hello, Ada!' }, called.stderr)
})

test('a Python program in a sandbox reads a file of the user and writes one, which --out stores', () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'in.csv'), '1\n2\n3\n')
  writeFileSync(
    join(folder, 'sum.py'),
    "rows = [int(line) for line in open('in.csv')]\nopen('sum.txt', 'w').write(f'{sum(rows)}\\n')\nprint(len(rows), 'rows')\n",
  )
  const words = ['run', 'code:run', '--file', 'in.csv', '--code', '@sum.py', '--out', '.']
  const { stdout, stderr, status } = gantry(words, folder)
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout).stdout, '3 rows\n')
  assert.equal(readFileSync(join(folder, 'sum.txt'), 'utf8'), '6\n')
})

test('a sandbox with numpy, pandas and matplotlib returns a plot, which --out stores', () => {
  const folder = emptyFolder()
  writeFileSync(
    join(folder, 'gantry.config.yaml'),
    'runtimes: { python: { packages: [numpy, pandas, matplotlib] }, packagesFolder: packages }\n',
  )
  writeFileSync(
    join(folder, 'plot.py'),
    `import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

frame = pd.DataFrame({'x': np.linspace(0, 10, 200)})
frame['sin'] = np.sin(frame.x)
frame.plot(x='x', y='sin')
plt.savefig('sin.png')
`,
  )
  const built = gantry(['runtime', 'build', 'packages'], folder)
  assert.equal(built.status, 0, built.stderr)
  const { stdout, stderr, status } = gantry(['run', 'code:run', '--code', '@plot.py', '--out', '.'], folder)
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout).stderr, '')
  const picture = readFileSync(join(folder, 'sin.png'))
  assert.deepEqual([picture.subarray(1, 4).toString(), picture.readUInt32BE(16)], ['PNG', 640])
  const pruned = gantry(['runtime', 'prune', 'packages'], folder)
  assert.equal(pruned.status, 0, pruned.stderr)
})
