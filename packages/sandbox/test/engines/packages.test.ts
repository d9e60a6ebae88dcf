import assert from 'node:assert/strict'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { buildPackages, pythonOfSandboxes } from '../../src/packages/build-packages.ts'
import { removeTree } from '../../src/packages/layer-store.ts'
import { prunePackages } from '../../src/packages/open-layers.ts'
import { readPackages } from '../../src/packages/package-lists.ts'
import { createSandboxes } from '../../src/runtimes/create-sandboxes.ts'

const signal = AbortSignal.timeout(600_000)
const plot = `
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

frame = pd.DataFrame({'x': np.linspace(0, 10, 200)})
frame['sin'] = np.sin(frame.x)
frame.plot(x='x', y='sin')
plt.savefig('sin.png')
return round(float(frame.sin.max()), 2)`

test('numpy, pandas and matplotlib from the index of this machine draw a picture, which is the only file', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-plot-'))
  const python = { packages: ['numpy', 'pandas', 'matplotlib'], lock: join(folder, 'gantry.python.lock') }
  const options = { pool: false, python, packagesFolder: join(folder, 'packages') } as const
  const plain = createSandboxes({ pool: false })
  try {
    const source = await readPackages(options, 'python')
    assert.ok(source)
    const steps: string[] = []
    const made = await buildPackages(source, {
      update: false,
      signal,
      onProgress: (step) => steps.push(step),
      pythonTarget: () => pythonOfSandboxes(plain, signal),
    }).catch((error: unknown) => {
      if (!ToolError.is(error) || !error.retryable || process.env.GANTRY_ENGINES === 'required') throw error
      context.skip(error.message)
    })
    if (made === undefined) return
    assert.ok(made.layer.packages > 3 && steps.includes('choosing packages: numpy'))
    const boxes = createSandboxes(options)
    try {
      const request = {
        program: { kind: 'code', language: 'python', code: plot },
        collect: { files: 9, bytes: 1e7 },
      } as const
      const { outcome, runtime } = await boxes.run(request, signal)
      assert.equal(new TextDecoder().decode(outcome.stderr.bytes), '')
      assert.equal(outcome.value, 1)
      assert.deepEqual([...outcome.files.keys()], ['sin.png'])
      const picture = Buffer.from(outcome.files.get('sin.png') ?? [])
      assert.deepEqual([picture.subarray(1, 4).toString(), picture.readUInt32BE(16)], ['PNG', 640])
      assert.deepEqual(runtime.packages, { python: `sha256:${made.layer.digest}` })
    } finally {
      await boxes.close()
    }
  } finally {
    await plain.close()
    await prunePackages({})
    await removeTree(folder)
  }
})
