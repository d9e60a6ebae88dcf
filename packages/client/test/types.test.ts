import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type * as client from '@gantry/client'
import type { FoundTool, ToolDoc } from '@gantry/core'
import type { CircuitSummary } from '@gantry/core/internal/resilience/circuit-state'
import type { RuntimeInfo } from '@gantry/sandbox'
import type { PolicyAnswer, PolicyView } from '../../service/src/admission/policy/policy-control.ts'
import type { CatalogTool, ListedTool } from '../../service/src/http/schemas.ts'

/** Whether each fits where the other is wanted. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Fits<A, B> = [A] extends [B] ? true : false

/** The client cannot import the service, so that both write these types down; a difference does not compile. */
const same: readonly true[] = [
  true satisfies Same<client.PolicyAnswer, PolicyAnswer>,
  true satisfies Same<client.PolicyView['version'], PolicyView['version']>,
  true satisfies Same<client.CatalogTool, CatalogTool>,
  true satisfies Same<client.ListedTool, ListedTool>,
  true satisfies Same<client.FoundTool, FoundTool>,
  true satisfies Same<client.ToolDoc, ToolDoc>,
  true satisfies Fits<CircuitSummary, client.CircuitView>,
  true satisfies Fits<RuntimeInfo, client.RuntimeView>,
]

test('the types of the client match those of the service', () => {
  assert.ok(same.every(Boolean))
})

test('the client uses no API that only Node has', () => {
  const folder = join(dirname(import.meta.dirname), 'src')
  const files = globSync('*.ts', { cwd: folder }).filter((file) => !file.endsWith('.test.ts'))
  assert.ok(files.length > 5)
  for (const file of files) {
    const text = readFileSync(join(folder, file), 'utf8')
    assert.doesNotMatch(text, /from 'node:|\bBuffer\b|\bprocess\.|\brequire\(/, file)
  }
})
