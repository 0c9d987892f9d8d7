// Operands of IN type in texel buffers, four elements per texel. There is no bf16 texel format: with BF16_TEXELS, a texel is two words.
#ifndef TEXELS_GLSL
#define TEXELS_GLSL

#if BF16_TEXELS
#define TEXELS usamplerBuffer
#define fetch(texels, at) half4_decode(texelFetch(texels, at).xy, true)
#else
#define TEXELS samplerBuffer
#define fetch(texels, at) texelFetch(texels, at)
#endif

#endif
