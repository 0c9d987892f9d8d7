/* Made by tests/make_preprocess_vectors.py with Pillow 13.0.0, torchvision 0.26.0, torch
   2.11.0, timm 1.0.31 and transformers 5.23.0. */
/* clang-format off */
#define N_IMAGES 6
static const int32_t image_sizes[N_IMAGES][2] = {{45, 31}, {23, 58}, {11, 9}, {160, 6}, {20, 90}, {28, 28}};
static const struct vector {
    const char *name, *config, *preprocessor;
    int32_t height, width;
    uint32_t crc[N_IMAGES];
    int32_t n_values; /* 0: crc is that of all values */
    float values[N_IMAGES][25];
} vectors[] = {
    {"vit_base_patch16_224.augreg_in21k",
     "{\"architecture\": \"vit_base_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 28"
     ", 28], \"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5], \"interpolation\": \"bicubi"
     "c\", \"crop_pct\": 0.9, \"crop_mode\": \"center\"}}",
     NULL,
     28, 28,
     {0xb9e9c37f, 0xc26af11e, 0x7efff2ff, 0x1f4bf0a7, 0x7628d8e1, 0x729c7145},
     0, {{0}}},
    {"deit3_small_patch16_384.fb_in1k",
     "{\"architecture\": \"deit3_small_patch16_384\", \"pretrained_cfg\": {\"input_size\": [3,"
     " 28, 28], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpol"
     "ation\": \"bicubic\", \"crop_pct\": 1.0, \"crop_mode\": \"center\"}}",
     NULL,
     28, 28,
     {0x6b6f289b, 0xad9f3ee4, 0x2c923d38, 0x40a2b220, 0x830dc5f2, 0xfb7aefd8},
     0, {{0}}},
    {"vit_base_patch16_clip_224.openai",
     "{\"architecture\": \"vit_base_patch16_clip_224\", \"pretrained_cfg\": {\"input_size\": ["
     "3, 28, 28], \"mean\": [0.48145466, 0.4578275, 0.40821073], \"std\": [0.26862954, 0.2"
     "6130258, 0.27577711], \"interpolation\": \"bicubic\", \"crop_pct\": 0.9, \"crop_mode\": "
     "\"center\"}}",
     NULL,
     28, 28,
     {0x0830712e, 0x8b5e605d, 0x61f588ff, 0x1afcfe20, 0x6b26030b, 0x5cde86cb},
     0, {{0}}},
    {"vit_large_patch14_clip_336.openai",
     "{\"architecture\": \"vit_large_patch14_clip_336\", \"pretrained_cfg\": {\"input_size\": "
     "[3, 28, 28], \"mean\": [0.48145466, 0.4578275, 0.40821073], \"std\": [0.26862954, 0."
     "26130258, 0.27577711], \"interpolation\": \"bicubic\", \"crop_pct\": 1.0, \"crop_mode\":"
     " \"center\"}}",
     NULL,
     28, 28,
     {0x45882187, 0xde1264c5, 0x5fdd4ed1, 0x2c19b728, 0x9981f313, 0x9823a908},
     0, {{0}}},
    {"vit_base_patch16_siglip_224.webli",
     "{\"architecture\": \"vit_base_patch16_siglip_224\", \"pretrained_cfg\": {\"input_size\":"
     " [3, 28, 28], \"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5], \"interpolation\": "
     "\"bicubic\", \"crop_pct\": 0.9, \"crop_mode\": \"center\"}}",
     NULL,
     28, 28,
     {0xb9e9c37f, 0xc26af11e, 0x7efff2ff, 0x1f4bf0a7, 0x7628d8e1, 0x729c7145},
     0, {{0}}},
    {"vit_small_patch14_dinov2.lvd142m",
     "{\"architecture\": \"vit_small_patch14_dinov2\", \"pretrained_cfg\": {\"input_size\": [3"
     ", 28, 28], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpo"
     "lation\": \"bicubic\", \"crop_pct\": 1.0, \"crop_mode\": \"center\"}}",
     NULL,
     28, 28,
     {0x6b6f289b, 0xad9f3ee4, 0x2c923d38, 0x40a2b220, 0x830dc5f2, 0xfb7aefd8},
     0, {{0}}},
    {"eva02_base_patch14_448.mim_in22k_ft_in1k",
     "{\"architecture\": \"eva02_base_patch14_448\", \"pretrained_cfg\": {\"input_size\": [3, "
     "28, 28], \"mean\": [0.48145466, 0.4578275, 0.40821073], \"std\": [0.26862954, 0.2613"
     "0258, 0.27577711], \"interpolation\": \"bicubic\", \"crop_pct\": 1.0, \"crop_mode\": \"ce"
     "nter\"}}",
     NULL,
     28, 28,
     {0x45882187, 0xde1264c5, 0x5fdd4ed1, 0x2c19b728, 0x9981f313, 0x9823a908},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 2"
     "8, 28], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bilinear\", \"crop_pct\": 0.8, \"crop_mode\": \"center\"}}",
     NULL,
     28, 28,
     {0xb7689100, 0xcb15847f, 0xaf540f3d, 0xe08a202e, 0xd3da50e5, 0xc163340b},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 2"
     "8, 28], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bicubic\", \"crop_pct\": 0.875, \"crop_mode\": \"squash\"}}",
     NULL,
     28, 28,
     {0x8022ef56, 0x9bb3244e, 0x2d745ffb, 0x04f84b48, 0xc6e68272, 0x61d3a155},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 2"
     "8, 28], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bicubic\", \"crop_mode\": \"border\"}}",
     NULL,
     28, 28,
     {0xdcff5244, 0x1891a322, 0xd5981181, 0x66b9b8dc, 0x2d45b30c, 0x61d3a155},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 2"
     "4, 40], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bicubic\", \"crop_pct\": 0.9, \"crop_mode\": \"center\"}}",
     NULL,
     24, 40,
     {0x8ee5667f, 0x24c163cd, 0x2254b8c9, 0xe4d482ba, 0xc68ded79, 0x58122509},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 4"
     "0, 24], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bicubic\", \"crop_pct\": 1.0, \"crop_mode\": \"border\"}}",
     NULL,
     40, 24,
     {0xe876616a, 0xe22daa58, 0x47e53119, 0x81dbbf38, 0xeb7901fa, 0x7c672d32},
     0, {{0}}},
    {"deit_tiny_patch16_224.fb_in1k",
     "{\"architecture\": \"deit_tiny_patch16_224\", \"pretrained_cfg\": {\"input_size\": [3, 1"
     "7, 40], \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225], \"interpolat"
     "ion\": \"bilinear\", \"crop_pct\": 0.95, \"crop_mode\": \"squash\"}}",
     NULL,
     17, 40,
     {0x72b659e4, 0x592867fc, 0xc05e92ea, 0x2cac7573, 0x2bafe0f3, 0xafac4ba6},
     0, {{0}}},
    {"CLIP",
     NULL,
     "{\"image_processor_type\": \"CLIPImageProcessor\", \"size\": {\"shortest_edge\": 28}, \"c"
     "rop_size\": {\"height\": 28, \"width\": 28}}",
     28, 28,
     {0x2530cade, 0x5cf1a534, 0xd6c95790, 0xf414bf8a, 0xcc3ff01d, 0x74d53022},
     0, {{0}}},
    {"CLIP, old",
     NULL,
     "{\"feature_extractor_type\": \"CLIPFeatureExtractor\", \"size\": 28, \"crop_size\": 28}",
     28, 28,
     {0x2530cade, 0x5cf1a534, 0xd6c95790, 0xf414bf8a, 0xcc3ff01d, 0x74d53022},
     0, {{0}}},
    {"CLIP, unnamed",
     "{\"model_type\": \"clip\"}",
     "{\"size\": 28, \"crop_size\": 28, \"resample\": 3}",
     28, 28,
     {0x2530cade, 0x5cf1a534, 0xd6c95790, 0xf414bf8a, 0xcc3ff01d, 0x74d53022},
     0, {{0}}},
    {"CLIP, beyond the edges",
     NULL,
     "{\"image_processor_type\": \"CLIPImageProcessorFast\", \"size\": {\"shortest_edge\": 19}"
     ", \"crop_size\": {\"height\": 28, \"width\": 28}}",
     28, 28,
     {0x11a88213, 0x1bf01da0, 0xfdd8c9c0, 0x43a7a0e5, 0x8ab28730, 0x80acf713},
     0, {{0}}},
    {"CLIP, not square",
     NULL,
     "{\"image_processor_type\": \"CLIPImageProcessor\", \"size\": {\"shortest_edge\": 33}, \"c"
     "rop_size\": {\"height\": 20, \"width\": 35}}",
     20, 35,
     {0xbe82f4af, 0x60556f75, 0xfed047eb, 0xb86871f4, 0xeca14311, 0xc8f23af4},
     0, {{0}}},
    {"DINOv2",
     NULL,
     "{\"image_processor_type\": \"BitImageProcessor\", \"size\": {\"shortest_edge\": 32}, \"cr"
     "op_size\": {\"height\": 28, \"width\": 28}, \"image_mean\": [0.485, 0.456, 0.406], \"ima"
     "ge_std\": [0.229, 0.224, 0.225]}",
     28, 28,
     {0xea6fa5ed, 0xe90b9df6, 0x314a4181, 0xf0bf9c9e, 0xc0f4ebd1, 0x8b6227f2},
     0, {{0}}},
    {"SigLIP",
     NULL,
     "{\"image_processor_type\": \"SiglipImageProcessor\", \"size\": {\"height\": 28, \"width\":"
     " 28}}",
     28, 28,
     {0x1b9e0dfd, 0x6ebd3dc8, 0xba2d5d0f, 0x665d9ca8, 0x8e5c86d1, 0x66fe9f8e},
     0, {{0}}},
    {"SigLIP2",
     NULL,
     "{\"image_processor_type\": \"SiglipImageProcessor\", \"size\": {\"height\": 20, \"width\":"
     " 36}, \"resample\": 2}",
     20, 36,
     {0xf28fda4b, 0x9d0c0ca8, 0xb335a04f, 0xe59b3645, 0x835d3bc9, 0x9430d154},
     0, {{0}}},
    {"ViT",
     NULL,
     "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 28, \"width\": 28"
     "}}",
     28, 28,
     {0x3fa8c8ad, 0xdef50be6, 0xee2c4c2c, 0x6cd36d19, 0x68dd79be, 0x66fe9f8e},
     0, {{0}}},
    {"ViT, unnamed",
     "{\"model_type\": \"vit\"}",
     "{\"size\": 28, \"do_resize\": true}",
     28, 28,
     {0x3fa8c8ad, 0xdef50be6, 0xee2c4c2c, 0x6cd36d19, 0x68dd79be, 0x66fe9f8e},
     0, {{0}}},
    {"DeiT",
     NULL,
     "{\"feature_extractor_type\": \"DeiTFeatureExtractor\", \"size\": 32, \"crop_size\": 28, "
     "\"image_mean\": [0.485, 0.456, 0.406], \"image_std\": [0.229, 0.224, 0.225]}",
     28, 28,
     {0x504c866d, 0x670845dd, 0x4c6ed64e, 0xd595108b, 0xbe4650a6, 0x8b6227f2},
     0, {{0}}},
    {"not normalised",
     NULL,
     "{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 28, \"do_normalize\": false}",
     28, 28,
     {0x9ee97af2, 0xc8300a19, 0x43c5ebc9, 0x16ef5aba, 0xbd8c0254, 0xc21309e4},
     0, {{0}}},
    {"DINOv3",
     NULL,
     "{\"image_processor_type\": \"DINOv3ViTImageProcessorFast\", \"size\": {\"height\": 28, \""
     "width\": 28}}",
     28, 28,
     {0}, 25,
     {{-0.707589626f, 0.939282775f, -0.689858794f, -0.109422542f, -0.217349768f, -0.16917035f, 0.70416981f, 0.362404317f,
       -0.363923192f, 0.699781001f, 0.610020936f, 0.252871752f, 0.118968606f, -1.5730592f, 0.251568705f, 0.933061063f,
       0.713857293f, 0.94127059f, -0.479954481f, 0.522531271f, 0.66323483f, -0.22850275f, 1.56844211f, 1.26338816f,
       0.711698174f},
      {-1.4143213f, -0.108207025f, -0.747087359f, 1.36422455f, 0.591695845f, -0.487716436f, 0.716874182f, 0.197238788f, 1.44628513f,
       0.189024553f, 0.364377141f, 0.435070932f, 0.405147523f, 0.488113195f, 1.40882242f, 1.36224937f, -0.922754765f,
       0.538807034f, -0.701291561f, 1.12609851f, 0.369403511f, 0.0247184448f, 1.19109464f, 0.0899546668f, 0.0517479591f},
      {-2.03228021f, -0.110102922f, -1.04783607f, 1.77197659f, -1.23888433f, 0.625879467f, 0.573985934f, -0.030633403f,
       0.424510002f, 1.59108829f, 0.731045246f, -0.494277209f, 0.718395233f, -0.944496512f, -0.100726925f, -0.456020355f,
       -1.01249254f, 0.941649675f, 1.72162175f, 0.215702191f, -0.166361079f, 0.569905341f, 0.170423597f, -0.573396444f,
       1.4691323f},
      {0.391666532f, 0.208555862f, -0.13438648f, 0.192354858f, -0.19605647f, 0.526990175f, 0.510727227f, -0.14488627f,
       -0.0642099455f, 0.751799643f, 0.428920478f, 0.34151426f, 0.153495923f, 0.546263635f, 0.281025648f, 0.713265717f,
       0.132941633f, 0.386574537f, 0.474467963f, 0.740352869f, 0.267294914f, -0.558896184f, 1.12967932f, 0.798515916f,
       -0.0283445269f},
      {-0.567280591f, -0.464813024f, -0.491782963f, 0.143345267f, 0.0306352247f, -0.157527134f, 0.958470285f, 0.239323571f,
       -0.889308035f, 0.192564368f, 0.326663107f, 0.0243373215f, -0.424511194f, 0.508341789f, 0.427596658f, 0.222749069f,
       0.182642326f, 0.588397086f, 0.527981281f, -0.0228591766f, 0.595710695f, 1.04397631f, 0.78519094f, 0.827032328f,
       0.620578289f},
      {-2.03228021f, -0.57667613f, -0.953420639f, 0.485058695f, 0.553557694f, 0.0055656163f, -1.03904438f, -0.559551358f,
       1.22142327f, -0.827731013f, -1.16036403f, 0.695378244f, 0.485294223f, 0.730392218f, -1.68557417f, -0.0399158187f,
       -2.01820731f, -1.15956414f, -0.00923726335f, -1.21185172f, 0.809934795f, 2.32627511f, 0.321917415f, 1.85568666f,
       1.03651428f}}},
};
/* clang-format on */
