import { type Issue, type JsonSchema, ToolError } from '@gantry/contract'

type SchemaObject = Exclude<JsonSchema, boolean>

/** Schemas looked at for one argument; a schema whose references go in a circle ends here. */
const mostLooks = 500

/**
 * Refuses arguments that came as binary data, and are base64 text by now, where the schema of the tool does not say that
 * it takes such text: by `contentEncoding: base64`, or by `format: byte` as OpenAPI writes it. Text that only looks like
 * the data would else reach a tool that means something else by it.
 * - Errors: INPUT_INVALID with the path of each.
 */
export function refuseBinary(inputSchema: JsonSchema, pointers: readonly string[]): void {
  const refused = pointers.filter((pointer) => !takesBinary(inputSchema, segmentsOf(pointer)))
  if (refused.length === 0) return
  const issues: Issue[] = refused.map((path) => {
    return { path, message: 'is binary data; the schema takes it only with contentEncoding base64 or format byte' }
  })
  const [first] = issues
  throw new ToolError('INPUT_INVALID', `The arguments are not valid: ${first?.path} ${first?.message}.`, {
    details: { issues: issues.slice(0, 20) },
  })
}

function segmentsOf(pointer: string): readonly string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function takesBinary(root: JsonSchema, segments: readonly string[]): boolean {
  let looks = mostLooks
  const takes = (schema: unknown, at: number): boolean => {
    looks -= 1
    if (looks < 0 || !isSchemaObject(schema)) return false
    if (at === segments.length && (schema.contentEncoding === 'base64' || schema.format === 'byte')) return true
    if (parts(schema, root).some((part) => takes(part, at))) return true
    const segment = segments[at]
    return segment !== undefined && takes(memberOf(schema, segment), at + 1)
  }
  return takes(root, 0)
}

/** Other schemas that speak of the same value. */
function parts(schema: SchemaObject, root: JsonSchema): readonly unknown[] {
  const { $ref, allOf, anyOf, oneOf } = schema
  const several = [allOf, anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []))
  return typeof $ref === 'string' ? [...several, referred($ref, root)] : several
}

function memberOf({ properties, additionalProperties, items, prefixItems }: SchemaObject, segment: string): unknown {
  if (isSchemaObject(properties) && Object.hasOwn(properties, segment)) return properties[segment]
  if (/^\d{1,9}$/.test(segment)) {
    const first = Array.isArray(prefixItems) ? (prefixItems[Number(segment)] as unknown) : undefined
    if (first !== undefined || items !== undefined) return first ?? items
  }
  return additionalProperties
}

/** What a reference within the schema means; any other is not followed. */
function referred(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith('#')) return undefined
  let found: unknown = root
  for (const segment of segmentsOf(reference.slice(1))) {
    if (!isSchemaObject(found) || !Object.hasOwn(found, segment)) return undefined
    found = found[segment]
  }
  return found
}

function isSchemaObject(value: unknown): value is SchemaObject {
  return typeof value === 'object' && value !== null
}
