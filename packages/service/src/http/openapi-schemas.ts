import type { JsonSchema } from '@gantry/contract'
import { schemas } from '@gantry/contract/schemas'
import { viewSchemas } from './schemas.ts'

type Named = { [name: string]: JsonSchema }

/**
 * Every schema of the document by its name. Those of the contract stand alone, each with parts of its own; here the
 * parts stand beside them, once, because few readers of OpenAPI know schemas with ids of their own.
 */
export function componentSchemas(): Named {
  const { result, 'stream-event': streamEvent, chain, 'chain-result': chainResult } = schemas
  const named: Named = {}
  // A part of a chain is called like a call of the service, and is not one.
  takeParts(named, result, '')
  takeParts(named, chain, 'Chain')
  takeParts(named, chainResult, '')
  named.StreamEvent = own(streamEvent, '')
  named.Chain = own(chain, 'Chain')
  named.ChainResult = own(chainResult, '')
  return { ...named, ...viewSchemas }
}

function takeParts(
  named: Named,
  schema: { readonly $defs: { readonly [part: string]: JsonSchema } },
  prefix: string,
): void {
  for (const [part, definition] of Object.entries(schema.$defs)) named[nameOf(part, prefix)] = moved(definition, prefix)
}

/** A schema without what belongs to a document of its own. */
function own(schema: { readonly [keyword: string]: unknown }, prefix: string): JsonSchema {
  const { $schema: _dialect, $id: _id, $defs: _parts, ...rest } = schema
  return moved(rest, prefix) as JsonSchema
}

/** The same with its references to parts led to where these are now. */
function moved<T>(schema: T, prefix: string): T {
  if (Array.isArray(schema)) return schema.map((item: unknown) => moved(item, prefix)) as T
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) =>
      key === '$ref'
        ? [
            key,
            String(value).replace(
              /^#\/\$defs\/(.+)$/,
              (_, part: string) => `#/components/schemas/${nameOf(part, prefix)}`,
            ),
          ]
        : [key, moved(value, prefix)],
    ),
  ) as T
}

function nameOf(part: string, prefix: string): string {
  return `${prefix}${part.charAt(0).toUpperCase()}${part.slice(1)}`
}
