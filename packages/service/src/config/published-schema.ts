import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { httpCheck } from '@gantry/core/internal/backends/http/options'
import { egressCheck } from '@gantry/core/internal/egress/options'
import { safeguardsCheck } from '@gantry/core/internal/safeguards'
import { grpcCheck } from '@gantry/grpc/internal/options'
import { mcpCheck } from '@gantry/mcp/internal/client/settings'
import { sandboxSchema } from '@gantry/sandbox/internal/runtimes/options'
import { engineChecks, runtimeDriverChecks } from '@gantry/tools/internal/create-executor'
import { sandboxNetworkSchema } from '@gantry/tools/internal/sandbox'
import { webSchema } from '@gantry/tools/internal/web/binding'
import { configSchema } from './schema.ts'

type Members = { readonly [key: string]: JsonSchema }

const text: JsonSchema = { type: 'string', minLength: 1 }

/** Rules of egress, which `parseRules` checks. */
const allow: JsonSchema = {
  type: 'array',
  items: {
    anyOf: [
      text,
      {
        type: 'object',
        properties: { origin: text, methods: { type: 'array', items: text }, private: { type: 'boolean' } },
        required: ['origin'],
        additionalProperties: false,
      },
    ],
  },
}

/**
 * The schema of a whole configuration in JSON or YAML, for editors and for the reference. It is made of the schemas and
 * checks that a configuration is checked with, and of what they leave to code that runs after them.
 */
export function publishedSchema(): JsonSchema {
  const { properties, ...rest } = asObject(configSchema)
  const members = asObject(properties)
  const { profiles, ...runtimes } = asObject(asObject(sandboxSchema(runtimeDriverChecks)).properties)
  const schema: Members = {
    $schema: members.$schema ?? true,
    tools: { type: 'array', items: { type: 'object' } },
    backends: {
      type: 'array',
      items: { oneOf: [backend('mcp', mcpCheck.schema), http(), backend('grpc', grpcCheck.schema)] },
    },
    ...members,
    egress: withMembers(egressCheck.schema, { allow }),
    safeguards: safeguardsCheck.schema ?? true,
    runtimes: { type: 'object', properties: runtimes, additionalProperties: false },
    engines: {
      type: 'object',
      properties: { temporal: engineChecks.temporal.schema ?? true },
      additionalProperties: false,
    },
    profiles: profiles ?? true,
    sandboxNetwork: sandboxNetworkSchema(),
    httpFetch: webSchema,
  }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Gantry configuration',
    ...rest,
    properties: schema,
  }
}

function http(): JsonSchema {
  const own = withMembers(httpCheck.schema, { tools: { type: ['array', 'string'] }, openapi: text })
  return backend('http', { ...asObject(own), required: ['name'] })
}

function backend(kind: string, schema: JsonSchema | undefined): JsonSchema {
  const { required, ...rest } = asObject(schema)
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  return { ...asObject(withMembers(rest, { kind: { const: kind } }, true)), required: ['kind', ...names] } as JsonSchema
}

/** The same with these members, instead of or before its own. */
function withMembers(schema: JsonSchema | undefined, members: Members, isFirst = false): JsonSchema {
  const { properties, ...rest } = asObject(schema)
  const own = asObject(properties)
  return { ...rest, properties: isFirst ? { ...members, ...own } : { ...own, ...members } }
}

function asObject(value: unknown): Members {
  return isObject(value) ? (value as Members) : {}
}
