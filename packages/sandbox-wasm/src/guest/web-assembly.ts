/** The part of WebAssembly that is used here; the compiler's library for Node does not describe it. */
export interface WebAssemblyApi {
  compile(bytes: Uint8Array): Promise<WasmModule>
  readonly Module: {
    new (bytes: Uint8Array): WasmModule
    imports(module: WasmModule): { readonly module: string; readonly name: string; readonly kind: string }[]
  }
  readonly Instance: new (
    module: WasmModule,
    imports: WasmImports,
  ) => { readonly exports: { readonly [name: string]: unknown } }
  readonly Memory: {
    new (size: { initial: number; maximum: number }): WasmMemory
    readonly prototype: WasmMemory
  }
}

export interface WasmModule {
  readonly [Symbol.toStringTag]?: string
}

export interface WasmMemory {
  readonly buffer: ArrayBuffer
  /** Gives the size before, in pages; throws when it cannot grow. */
  grow(pages: number): number
}

export interface WasmImports {
  readonly [module: string]: { readonly [name: string]: unknown }
}

export const webAssembly = Reflect.get(globalThis, 'WebAssembly') as WebAssemblyApi

/** Bytes in a page of linear memory. */
export const pageBytes = 65_536
