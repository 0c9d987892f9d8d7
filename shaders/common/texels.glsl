// Operands of IN type in texel buffers, four elements a texel. bf16 is no texel format: with BF16_TEXELS, texels are two words.
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
