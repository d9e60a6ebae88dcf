import type { Tool } from '@gantry/contract'
import { digestOf } from '../json/canonical.ts'
import type { PinnedDefinition } from './pin.ts'

/** The part of a tool that is pinned. */
export function definitionOf(tool: Tool): PinnedDefinition {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool
  const rawName = tool.backends[0]?.tool
  return {
    name,
    ...(typeof rawName === 'string' && rawName !== name ? { rawName } : {}),
    description,
    inputSchema,
    ...(title === undefined ? {} : { title }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(annotations === undefined ? {} : { annotations }),
  }
}

/** SHA-256 of the definition's canonical JSON, so that the order of keys makes no difference. */
export function definitionHash(definition: PinnedDefinition): string {
  return digestOf(definition)
}
