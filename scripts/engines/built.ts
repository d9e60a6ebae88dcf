import { goProgram } from './go.ts'
import { inspectorVersion, mcpInspector } from './inspector.ts'
import { kafkaEngine, kafkaVersion } from './kafka.ts'
import { pythonMcp, pythonMcpVersions } from './python-mcp.ts'
import { s3Program } from './s3.ts'
import { toxiproxyProgram } from './toxiproxy.ts'

/** An engine without a Debian package: downloaded or built once per user, which takes a minute or two. */
export interface BuiltEngine {
  readonly name: string
  readonly use: string
  /** Why it is unavailable; absent when it is available. */
  readonly missing?: string
}

const engines = [
  { name: `Kafka ${kafkaVersion}`, use: 'the service', build: kafkaEngine },
  { name: `versitygw ${s3Program.version}`, use: 'artifacts in S3', build: () => goProgram(s3Program) },
  { name: `toxiproxy ${toxiproxyProgram.version}`, use: 'faults', build: () => goProgram(toxiproxyProgram) },
  { name: `MCP inspector ${inspectorVersion}`, use: 'the MCP server', build: mcpInspector },
  ...pythonMcpVersions.map((version) => ({
    name: `MCP for Python ${version}`,
    use: 'the MCP server',
    build: () => pythonMcp(version),
  })),
]

/** Builds missing engines before the tests start, because tests have a timeout. */
export async function buildEngines(): Promise<readonly BuiltEngine[]> {
  const built: BuiltEngine[] = []
  for (const { name, use, build } of engines) {
    const failure = await build().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )
    const [missing] = failure?.split('\n') ?? []
    built.push(missing === undefined ? { name, use } : { name, use, missing })
  }
  return built
}
