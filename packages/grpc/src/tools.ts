import { type Tool, ToolError } from '@gantry/contract'
import { toolNameFault } from '@gantry/core/internal/ids/tool-id'
import type { GrpcOptions } from './options.ts'
import { inputSchemaOf, outputSchemaOf } from './schema.ts'
import { type MethodType, methodKey, type Types } from './types.ts'
import { WireError } from './wire.ts'

const mostTools = 1_000
const longestDescription = 4_000

/** Tools of a server's methods, and a sentence for each method that is none. */
export interface MethodTools {
  readonly tools: readonly Tool[]
  readonly left: readonly string[]
}

/** One tool for each method that takes one message, but for the services that gRPC keeps for itself. */
export function toolsOf(types: Types, options: GrpcOptions): MethodTools {
  const left = unknownServices(types, options)
  const methods = [...types.methods.values()].filter((method) => isChosen(method, options))
  const served = methods.filter((method) => !method.requestStream)
  for (const method of methods) {
    if (method.requestStream) left.push(`${methodKey(method)} takes a stream of messages, so it is no tool.`)
  }
  if (served.length > mostTools) left.push(`Only the first ${mostTools} of ${served.length} methods are tools.`)
  const names = namesOf(served)
  const tools: Tool[] = []
  for (const method of served.slice(0, mostTools)) {
    const tool = toolOf(method, names.get(method) ?? '', options)
    if (typeof tool === 'string') left.push(`${methodKey(method)} is no tool: ${tool}`)
    else tools.push(tool)
  }
  return { tools, left }
}

/** `Service.Method`; where that is taken twice, with the package before it. */
function namesOf(methods: readonly MethodType[]): ReadonlyMap<MethodType, string> {
  const short = ({ service, name }: MethodType): string => `${service.slice(service.lastIndexOf('.') + 1)}.${name}`
  const uses = new Map<string, number>()
  for (const method of methods) uses.set(short(method), (uses.get(short(method)) ?? 0) + 1)
  return new Map(
    methods.map((method) => {
      const name = short(method)
      return [method, uses.get(name) === 1 ? name : `${method.service}.${method.name}`]
    }),
  )
}

/** A tool, or why the method cannot be one. */
function toolOf(method: MethodType, name: string, options: GrpcOptions): Tool | string {
  const fault = toolNameFault(name)
  if (fault !== undefined) return `its name ${fault}.`
  try {
    return {
      namespace: options.name,
      name,
      version: '1.0.0',
      description: descriptionOf(method),
      inputSchema: inputSchemaOf(method.input),
      outputSchema: outputSchemaOf(method.output, method.responseStream),
      ...(method.says === 'nothing' ? {} : { annotations: hintsOf(method.says) }),
      ...(method.deprecated ? { deprecated: { message: 'The service marks this method as deprecated.' } } : {}),
      effect: options.effects?.[methodKey(method)] ?? 'once',
      backends: [{ kind: 'grpc', name: options.name, method: methodKey(method) }],
    }
  } catch (error) {
    if (ToolError.is(error) || error instanceof WireError) return error.message
    throw error
  }
}

function descriptionOf(method: MethodType): string {
  const { comment, output, responseStream } = method
  if (comment !== '') return comment.slice(0, longestDescription)
  const answer = responseStream ? `a stream of ${output.name}` : output.name
  return `Calls the gRPC method ${methodKey(method)}, which answers with ${answer}.`
}

/** What a service says of its method is shown; only the host decides what may be repeated. */
function hintsOf(says: 'read' | 'idempotent'): NonNullable<Tool['annotations']> {
  return says === 'read' ? { readOnlyHint: true, idempotentHint: true } : { idempotentHint: true }
}

/** gRPC's own services are tools only when they are asked for by name. */
function isChosen(method: MethodType, { services }: GrpcOptions): boolean {
  if (services !== undefined) return services.includes(method.service) || services.includes(methodKey(method))
  return !/^grpc\.(?:reflection|health|channelz)\./.test(method.service)
}

function unknownServices({ methods }: Types, { services = [] }: GrpcOptions): string[] {
  const known = new Set([...methods.values()].flatMap((method) => [method.service, methodKey(method)]))
  return services.filter((name) => !known.has(name)).map((name) => `services names ${name}, which does not exist.`)
}
