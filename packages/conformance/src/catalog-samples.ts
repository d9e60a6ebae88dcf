import assert from 'node:assert/strict'
import { type Tool, ToolError } from '@gantry/contract'
import type { Catalog } from '@gantry/core/internal/catalogs/catalog'

/** A good definition, with what a test wants to be different. */
export function sampleTool(changes: Partial<Tool> = {}): Tool {
  return {
    namespace: 'math',
    name: 'add',
    version: '1.0.0',
    description: 'Adds two numbers.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
    backends: [{ kind: 'local' }],
    effect: 'read',
    ...changes,
  }
}

/** A few tools in two namespaces, one of them only as a pre-release. */
export function filled(catalog: Catalog): Catalog {
  const description = 'A thing.'
  catalog.register(sampleTool({ namespace: 'b', name: 'one', version: '1.0.0-beta', description }))
  catalog.register(sampleTool({ namespace: 'a', name: 'two', description, tags: ['Blue Sky', 'blue-sky'] }))
  catalog.register(sampleTool({ namespace: 'a', name: 'one', description }))
  catalog.register(sampleTool({ namespace: 'a', name: 'one', version: '2.0.0', description }))
  return catalog
}

/** What a forger would send as a cursor. */
export function encoded(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/** Fails unless the act throws a ToolError of this code, at this path when one is given. */
export function refuses(act: () => unknown, code: string, path?: string): ToolError {
  try {
    act()
  } catch (error) {
    return hasCode(error, code, path)
  }
  return assert.fail(`expected ${code}`)
}

/** As `refuses`, for what is asynchronous. */
export async function rejects(promise: Promise<unknown>, code: string, path?: string): Promise<void> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason) => reason,
  )
  hasCode(error, code, path)
}

function hasCode(error: unknown, code: string, path?: string): ToolError {
  if (!ToolError.is(error)) return assert.fail(`expected ${code}, not ${String(error)}`)
  assert.equal(error.code, code)
  if (path !== undefined)
    assert.ok(
      error.details?.issues?.some((issue) => issue.path === path),
      error.message,
    )
  return error
}
